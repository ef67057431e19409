// SPDX-License-Identifier: Apache-2.0
// One training step, or one inference, as bench_all times it: a case of a model on one device, with synthetic data.
//   Step step(model, context, Tape::preferences_for(context.device()));
//   if (!step.supported()) skip with step.reason();
//   context.enter([&] { step.run(); });  // timed; data resident
//   context.enter([&] { for (p) step.run_phase(p); });  // the phases, timed one by one in order
//   context.enter([&] { step.run_node(i); });           // a node, timed alone; their sum is compared with the step
//   const Check check = step.replay();   // after timing: the same plans, every op compared with the reference
// The learning rate is so small that parameters hardly move while the step is timed, whatever the number of runs.
// A step is a job of its own, step/<model>/<side>/<dtype>/batch:N; so is an inference, infer/<model>/...
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/compare.h"
#include "core/gpu.h"
#include "models/model.h"
#include "models/tape.h"

namespace duet {

// Which tape of a model: train(), or evaluate() with initial parameters and no learning rate.
enum class Pass : uint8_t { training, inference };
const char* folder_of(Pass pass);  // "step/", "infer/": how names of jobs begin

// side: cpu, gpu or gpu.graph. "step/mlp/cpu/f32/batch:32"
std::string step_job_name(const Model& model, const std::string& side, Pass pass = Pass::training);

class Step {
 public:
  struct Node {
    std::string job, implementation;  // "linear/cpu.tuned/f32/n:32/...", "cpu.tuned"
    std::string phase;
    double flops;
    int64_t bytes;  // compulsory traffic
  };

  // eager: the host launches op by op. graph: the step is recorded once and replayed with one launch.
  enum class Form : uint8_t { eager, graph };

  // Builds, plans and allocates; draws inputs and parameters from `seed`. Throws Error for a preference of another
  // device.
  Step(const Model& model, Context& context, Tape::Preferences preferences, uint64_t seed = 1, Form form = Form::eager,
       Pass pass = Pass::training, Choice choice = Choice::order);

  bool supported() const { return reason_.empty(); }
  // Why it is not supported: no preferred implementation supports an op, there is too little memory, or no graph can be
  // recorded.
  const std::string& reason() const { return reason_; }
  double create_s() const { return create_s_; }

  // Each enqueues; call it inside context.enter(). run() is a whole step and moves the counters (dropout's offset) on.
  void run() {
    if (!graph_) return tape_->run();
    tape_->begin_step();
    graph_->replay();
  }
  void run_phase(size_t phase) {
    if (phase == 0) tape_->begin_step();
    tape_->run_phase(phase);
  }
  void run_node(size_t node) { tape_->run_node(node); }

  const std::vector<std::string>& phases() const { return tape_->phases(); }
  const std::vector<Node>& nodes() const { return nodes_; }  // in the order they run; a job may occur more than once
  double flops() const;
  int64_t bytes() const;  // sum over the nodes
  int64_t memory_bytes() const { return tape_->memory_bytes(); }
  std::vector<std::pair<std::string, std::string>> implementations()
      const;  // op -> the chosen implementation, or several joined by ", "

  void evict();  // removes the step's memory from the caches

  // Runs one step op by op and checks each op: downloads its inputs, poisons the outputs that are not inputs as well,
  // runs it, and compares the outputs with the reference on sampled slices. With elements_s every element is compared
  // as well (core/coverage.h), within about so many seconds: where they do not suffice, ops whose like was compared are
  // left out, and then others. The check's coverage is "op by op", or its sampled_reason says for how many ops it is
  // not. An input must still hold what the op that wrote it left there; this finds tensors that overlap and writes out
  // of bounds. A failure names the op. Before that, steps are run until the loss scale no longer falls. A graph is then
  // compared with a step without a graph: both start anew, and parameters, gradients, states and outputs must be equal,
  // as replay_kept() below compares them.
  Check replay(uint64_t seed = 1, double elements_s = 0);

  // The same for steps that were timed: keep_state() copies what persists from step to step, the timed steps follow,
  // and replay_kept() goes back to the copy and takes as many steps again, the last of them as replay() does.
  // Parameters, gradients, states, inputs and outputs must end as the timed steps left them: bit for bit, or, where an
  // op's plan says that its roundings vary, but for roundings. Since all nodes have run an odd number of times in
  // between, one that works only every second time is seen. Where the copy would take more than max_bytes, or half of
  // the memory that is available, it is replay(), and the check's sampled_reason says so.
  // The first call alone compares each op with the reference, for which it downloads every tensor: later series of a
  // job run the same plans, and their last step is run op by op with poisoned outputs only. Tensors are compared where
  // they are, by checksums (core/digest.h); only those of a step whose roundings vary are downloaded.
  void keep_state(int64_t max_bytes = INT64_MAX);
  Check replay_kept(int steps, uint64_t seed = 1, double elements_s = 0);
  void draw_inputs(uint64_t seed);  // anew; and runs steps until the loss scale no longer falls
  std::string changed_input();      // the name of an input that is not what draw_inputs() left; "" for none

  // Memory that a node both reads and writes, in place or as an inout: a second run would start from its own result.
  std::vector<std::pair<void*, int64_t>> rewritten(size_t node) const;

  // For the end-to-end scope: the memory that the host uploads before a step, and what it reads after it. A training
  // loop reads the loss, of each replica; logits stay where they are. An inference returns its logits.
  std::vector<std::pair<void*, int64_t>> device_inputs() const;
  std::vector<std::pair<void*, int64_t>> device_outputs() const;
  Tape& tape() { return *tape_; }

 private:
  void start_anew();        // from initial parameters
  void take_small_steps();  // sets the learning rate for timed steps
  void wait_for_loss_scale();
  // What a tensor held when a step had run, to be compared with what it holds after the same step.
  struct Result {
    uint64_t checksum;
    std::vector<unsigned char> bytes;  // where the step's roundings vary
  };
  bool varies() const;
  Result result(Var var) const;
  bool is_result(Var var, const Result& before) const;
  std::vector<Result> results(const std::vector<std::pair<std::string, Var>>& vars) const;
  Check compared_with_kept(int steps, uint64_t seed, double elements_s);
  Check repeated(Check check, const std::vector<Result>& answers);
  std::string graph_failure();
  std::vector<std::pair<std::string, Var>> persistent() const;
  std::vector<unsigned char> bytes_of(Var var) const;
  void copy_persistent(bool back);
  Pass pass_;
  std::unique_ptr<Tape> tape_;
  std::unique_ptr<RecordedGraph> graph_;  // declared after the tape: destroyed before the memory that it uses
  std::vector<Node> nodes_;
  std::vector<Buffer> kept_;  // of the arenas that persist; empty: nothing is kept
  uint64_t kept_steps_ = 0;
  bool compared_ = false;         // op by op with the reference, by replay_kept()
  std::vector<uint64_t> inputs_;  // checksums
  std::string reason_;
  double create_s_ = 0;
};

// The same for any planned tape. run: runs a node, by default Tape::run_node; a test can plant a fault there.
Check replay(Tape& tape, uint64_t seed, double elements_s, std::function<void(size_t node)> run = {});

// Runs one step op by op, each over poisoned outputs, and compares nothing with the reference: what must not be NaN is
// checked alone.
Check run_poisoned(Tape& tape);

}  // namespace duet
