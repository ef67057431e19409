// SPDX-License-Identifier: Apache-2.0
// A model as a list of ops: written once, planned once, run many times, on the CPU or the GPU. models/layers.h adds
// layers to it, models/step.h times it, models/trainer.h trains with it. models/lenet.cpp is a short use. In outline:
//   Tape tape(context, {"cpu.tuned", "cpu.openblas"});
//   const Var x = tape.input("x", DType::f32, {32, 784});
//   const Var w = tape.parameter("w", {10, 784}, Fill::uniform(-0.03, 0.03)), b = ...;
//   const Var y = tape.add(Linear{.n = 32, .in = 784, .out = 10}, {x, w, b});
//   tape.plan();
//   context.enter([&] { tape.run(); });
// There is no autodiff: a layer is a forward and a backward function that add ops, so that the code shows what runs.
// With the preferences {"reference"} on a CPU the same model computes its own reference: it runs Problem::reference of
// every op and holds every floating tensor in double, whatever its dtype (inputs and initial values are still rounded
// to the dtype). Errors are thrown as duet::Error.
#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/context.h"
#include "core/device_queue.h"
#include "core/error.h"
#include "core/nvtx.h"
#include "core/registry.h"
#include "models/choice.h"

namespace duet {

// A tensor on a tape, by number. Its memory comes with Tape::plan().
struct Var {
  int id = -1;
};

// What add() returns: as a Var the first output; by slot any tensor of the op, such as step[LayerNorm::rstd].
class Outputs {
 public:
  Outputs(std::vector<Var> slots, size_t first) : slots_(std::move(slots)), first_(first) {}
  operator Var() const { return slots_.at(first_); }
  Var operator[](Slot s) const { return slots_.at(static_cast<size_t>(s.index)); }

 private:
  std::vector<Var> slots_;
  size_t first_;
};

inline constexpr const char* kOptimiser = "optimiser";  // the phase that updates parameters

class Tape {
 public:
  using Preferences = std::vector<std::string>;
  // cpu.tuned before cpu.openblas; on a GPU, libraries before own kernels.
  static Preferences preferences_for(Device device);

  // preferences: implementations in order; each op uses the first that supports it. Throws where a name belongs to
  // another device than the context's, or "reference" is mixed with others.
  Tape(Context& context, Preferences preferences, uint64_t seed = 1);
  Tape(const Tape&) = delete;

  // Before plan(); without it the order of the preferences decides. known: what was chosen before, by op and label,
  // such as "linear f32/n:32/in:784/out:10". It is chosen again where this device has it and it still serves the
  // problem.
  using Choices = std::map<std::string, std::string>;
  void choose_by(Choice choice, Choices known = {}) {
    choice_ = choice;
    known_ = std::move(known);
  }
  Choices choices() const;  // after plan()

  // --- declaring, before plan() ----------------------------------------------------------------------------------

  // A tensor that the host writes between steps. fill_inputs() draws it as `fill` says.
  Var input(const std::string& name, DType dtype, Shape shape, Fill fill = {});
  // The same for values that no Fill describes: fill_inputs() calls draw with the number of each element and random
  // bits.
  using Draw = std::function<double(int64_t element, uint32_t bits)>;
  Var drawn_input(const std::string& name, DType dtype, Shape shape, Draw draw);
  // Parameters persist across steps. Those of a tape share one dtype and lie in one flat arena, and their gradients lie
  // in another at the same offsets, so that an optimiser is one op; without a gradient on the tape there is no second
  // arena. Each begins at a multiple of 256 bytes; gaps hold zeros.
  Var parameter(const std::string& name, Shape shape, Fill init, DType dtype = DType::f32);
  Var gradient(Var parameter) const;
  bool has_gradients() const { return gradients_.data() != nullptr; }  // after plan(): a forward pass alone has none
  // The parameters in f32, (parameter_count()), before they are rounded to their dtype: the state of mixed precision.
  Var master();
  void renew_master();  // after plan(): the parameters as they are, where there is one
  Var parameters();     // the whole arena: (parameter_count()); no parameter can be declared after this
  Var gradients();
  int64_t parameter_count();  // elements of the arena, gaps included
  Var state(const std::string& name, Shape shape, double value, DType dtype = DType::f32);
  Var state(const std::string& name, Shape shape, Fill init, DType dtype = DType::f32);  // such as a frozen weight
  // A tensor that ops read and never write, and that no checkpoint holds, such as the state before the first step of a
  // sequence.
  Var constant(const std::string& name, Shape shape, double value, DType dtype = DType::f32);
  Var constant(const std::string& name, Shape shape, Draw draw, DType dtype = DType::f32);
  // A view of consecutive elements of another tensor, such as one step of a sequence or the queries in a packed
  // projection. It has no memory of its own; the parent's memory is kept as long as a view is used. A view must begin
  // at a multiple of 16 bytes, the widest access of a kernel.
  Var slice(Var parent, int64_t first_element, Shape shape);
  // A tensor that ops write slice by slice, each bound as an output. Elements that were not written cannot be read.
  Var pieces(const std::string& name, DType dtype, Shape shape);
  // One i32 that grows by `stride` with every step, modulo 2^31, from a start that depends on the tape's seed: the
  // offset of a dropout. An asynchronous upload writes it before each step, so that the host never waits and a captured
  // graph stays valid.
  Var counter(const std::string& name, int64_t stride);

  void phase(const std::string& name);  // begins a phase: the ops added from here on belong to it

  // Adds an op. inputs: the in and inout tensors in the order of the contract. outputs: given tensors for some outputs,
  // such as a slice of the gradients; the other outputs are new tensors. A tensor fits when dtype and number of
  // elements agree, since all tensors are dense.
  using Bindings = std::initializer_list<std::pair<Slot, Var>>;
  template <class P>
  Outputs add(const P& problem, const std::vector<Var>& inputs, Bindings outputs = {}) {
    return add(Problem::of(problem), inputs, outputs);
  }
  Outputs add(const Problem& problem, const std::vector<Var>& inputs, Bindings outputs = {});

  // Adds a part of the forward pass again, in the backward pass, whose layers then read the tensors that are computed
  // here: those of the first time need no memory in between. plan() leaves out the ops among them whose results no op
  // reads, such as the one that gives the result of the part.
  template <class F>
  void recompute(const F& forward) {
    recomputing_ = true;
    forward();
    recomputing_ = false;
  }
  bool recomputing() const { return recomputing_; }  // a layer that updates a state does so the first time only

  // Makes the declared step one of data-parallel training, on devices which are all this one. Each tensor and op exists
  // once for each replica, and each op runs for all replicas before the next one. Inputs and dropout differ between
  // replicas, initial values do not. Only the phase kOptimiser exists once: its ops and states take the parameters of
  // all replicas.
  //   Before it, gradients are averaged by all_reduce, in buckets of at most bucket_bytes or of one larger parameter,
  //   each as soon as the backward pass has completed it in every replica. A bucket is a matrix (replicas, n): the
  //   arenas hold bucket after bucket, the last parameters first.
  //   The second replica's tensors are named "replica1.<name>", and so on. Without dropout and normalisation over the
  //   batch, it is the step of a batch that is larger by that factor. Each replica normalises over its own batch and
  //   has running statistics of its own.
  // Throws Error that says why, where that would not hold: for an optimiser that is not elementwise, or none.
  static constexpr int64_t kBucketBytes = int64_t{25} << 20;  // PyTorch's
  void replicate(int64_t replicas, int64_t bucket_bytes = kBucketBytes);
  int64_t replicas() const { return replicas_; }

  // Keeps a tensor readable after the step: no other tensor gets its memory.
  void output(const std::string& name, Var var);

  // Chooses implementations, makes their plans, packs temporaries and workspaces into one arena, and sets initial
  // values. Throws NotServed with op, case and every reason where no implementation supports an op; or, before anything
  // is allocated, with the memory that the step needs and the memory that is available.
  void plan();

  // --- running: inside context.enter(), as sessions do; nothing is allocated -----------------------------------------

  void run();                    // begin_step(), then every phase
  void begin_step();             // moves the counters on
  void run_phase(size_t phase);  // enqueues its ops
  void run_node(size_t node);

  // --- access from the host; complete on return ----------------------------------------------------------------------

  Var find(const std::string& name) const;  // an input, parameter, state or output; throws Error that lists the names
  Shape shape(Var var) const { return values_[index(var)].shape; }
  DType dtype(Var var) const { return values_[index(var)].dtype; }
  template <class T>
  void upload(Var var, std::span<const T> values) {
    upload(var, values.data(), dtype_of<T>, static_cast<int64_t>(values.size()));
  }
  void upload(Var var, const void* values, DType dtype, int64_t count);
  std::vector<double> download(Var var) const;
  bool finite(Var var) const;       // no element is NaN or infinite
  void fill_inputs(uint64_t seed);  // every input by its Fill
  void reset();  // parameters and state to their initial values, gradients to NaN; the number of steps to 0
  uint64_t steps() const { return steps_; }                // since reset()
  void continue_after(uint64_t steps) { steps_ = steps; }  // sets the number of steps, from which counters continue
  // Copies a trained tape's parameters, which must be declared alike in the same context, and the states that both
  // tapes have by name, such as running statistics. An evaluation tape needs them.
  void copy_state_from(Tape& from);

  // --- the contents --------------------------------------------------------------------------------------------------

  struct Node {  // an op with its tensors and its plan
    Problem problem;
    std::vector<Var> slots;
    size_t phase;
    bool again;  // added by recompute()
    std::string implementation;
    std::shared_ptr<Plan> plan;  // after plan(); equal problems share one
    size_t first_argument;
    std::optional<NvtxName> range;
    int64_t workspace_offset = 0;  // of the plan's workspace, in the arena of temporaries
    std::string job() const { return problem.name() + "/" + implementation + "/" + problem.label(); }
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<std::string>& phases() const { return phases_; }
  const std::vector<std::pair<std::string, Var>>& named_parameters() const { return named_parameters_; }
  const std::vector<std::pair<std::string, Var>>& states() const { return named_states_; }
  const std::vector<std::pair<std::string, Var>>& inputs() const { return named_inputs_; }
  const std::vector<std::pair<std::string, Var>>& outputs() const { return named_outputs_; }
  const std::string& name(Var var) const { return values_[index(var)].name; }
  Tensor tensor(Var var) const;  // its memory; after plan()
  int64_t bytes(Var var) const;  // of that memory
  // Throws NotServed, with the sizes, where there is too little memory for the tensors. plan() begins with it. Ops that
  // no op reads are dropped, so nothing can be added afterwards.
  void require_room();
  int64_t memory_bytes() const { return held_bytes_; }    // all that a step holds: arenas, and what plans keep
  std::vector<std::pair<void*, int64_t>> memory() const;  // the arenas
  std::vector<std::pair<void*, int64_t>> persistent_memory() const;  // those that steps keep: all but temporaries
  bool guards_intact() const;                                        // false: something wrote outside of an arena
  void* workspace(const Node& node) const { return temporary_.as<char>() + node.workspace_offset; }  // after plan()
  Context& context() const { return *context_; }
  bool planned() const { return planned_; }

 private:
  class Replication;                      // tape_replicate.cpp
  static constexpr int64_t kAlign = 256;  // bytes; kernels may load any parameter by whole vectors
  enum class Home : uint8_t { parameters, gradients, kept, temporary };
  struct Value {
    std::string name;
    DType dtype;
    Shape shape;
    Home home;
    Fill fill = {};
    bool initial = false;       // whether it has an initial value: a parameter or state
    Draw drawn = {};            // of an input or constant that no fill describes
    int gradient = -1;          // of a parameter: the number of its gradient
    int64_t offset = 0;         // bytes from the beginning of its home; of a slice, from the beginning of its parent
    bool written = false;       // by a node so far; of a temporary
    bool output = false;        // is read after the step
    int first = -1, last = -1;  // of a temporary: the nodes that first write and last read it, as plan() finds them
    int original = -1;          // of a replica's tensor: the number of the first replica's
    int parent = -1;            // of a slice: the number of the tensor whose memory it shares
    std::vector<std::pair<int64_t, int64_t>> missing = {};  // of pieces: elements [first, last) not yet written
  };
  struct Counter {
    Var var;
    int64_t stride;
  };

  size_t index(Var var) const;
  Var declare(Value value);
  void keep(Value& value);  // its place among the tensors that persist
  Var declare_named(std::vector<std::pair<std::string, Var>>& list, Value value);
  int64_t elements(const Value& value) const;
  DType stored(DType dtype) const { return reference_ && is_float(dtype) ? DType::f64 : dtype; }
  int64_t stored_bytes(const Value& value) const;
  Value& root(Value& value) { return value.parent < 0 ? value : values_[static_cast<size_t>(value.parent)]; }
  void use(Value& value, Role role, const std::string& job);
  void draw(Var var, uint64_t key);
  uint64_t initial_key(size_t value) const;
  void require_planned(bool planned, const char* what) const;
  int64_t gradient_bytes() const;
  Chosen choose_for(const Problem& problem);
  void drop_unread();
  void find_phase_ends();
  void find_lifetimes();
  int64_t pack_temporaries();                   // and the workspaces of those plans that are made; returns the bytes
  void require_bytes(int64_t temporary) const;  // as require_room()

  Context* context_;
  Preferences preferences_;
  Choice choice_ = Choice::order;
  Choices known_;
  uint64_t seed_;
  bool reference_ = false, planned_ = false, flat_ = false, recomputing_ = false;
  DType parameter_dtype_ = DType::f32;
  int64_t parameter_elements_ = 0, kept_bytes_ = 0, held_bytes_ = 0, replicas_ = 1;
  int master_ = -1;
  std::vector<Value> values_;
  std::vector<std::pair<std::string, Var>> named_inputs_, named_parameters_, named_states_, named_outputs_;
  std::vector<std::string> phases_;
  std::vector<Node> nodes_;
  std::vector<size_t> phase_end_;  // index after the last node of each phase
  std::vector<Tensor> arguments_;
  std::vector<Counter> counters_;
  uint64_t steps_ = 0;
  PinnedBuffer staged_;  // counters' values on their way to the device; none on a CPU
  Buffer parameters_, gradients_, kept_, temporary_;
  std::optional<NvtxName> step_range_;
  std::vector<NvtxName> phase_ranges_;
};

}  // namespace duet
