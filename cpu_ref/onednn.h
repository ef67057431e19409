// SPDX-License-Identifier: Apache-2.0
// How this project calls oneDNN 3, for the *_onednn.cpp of all families. A Program is what one plan runs: oneDNN's
// primitives and steps of our own, in order, on the tensors of a run and on temporaries in its workspace. A family's
// file describes its tensors (Desc: extents, element type, strides), asks oneDNN for a primitive, and adds it:
//   return onednn::planned([&](Program& run) {
//     const Desc d = onednn::dense(p.dtype, {p.rows, p.cols});
//     const auto x = run.tensor(Softmax::x, d), y = run.tensor(Softmax::y, d);
//     const softmax_forward::primitive_desc softmax(onednn::engine(), ..., d, d, 1, onednn::attributes());
//     run.add<softmax_forward>(softmax, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
//   });
// What oneDNN refuses becomes Unsupported, and so does what it only has reference code for.
//
// Layouts: all tensors of a run are in the layouts of the contract. Where oneDNN prefers another one, also for weights,
// the copy is a step of the run and inside every time, because each run may bring other weights; Plan::algorithm names
// what is copied. cpu.onednn_packed stands beside it where there are weights that oneDNN packs: it does so before, as
// a model in use would (Plan::prepared). Scratchpads are in the plan's workspace. Loops run in the oneTBB arena of the
// CpuContext, thus with its number of threads, and no thread of oneDNN's own exists. f32 products are in IEEE f32
// (fpmath_mode strict, the default). oneDNN keeps what it has compiled in a cache of its own.
#pragma once
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu_context.h"
#include "core/plan.h"

namespace duet::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

const dnnl::engine& engine();
bool has_vnni();                               // whether it multiplies bytes with sums in 32 bits
dnnl::memory::data_type type_of(DType dtype);  // throws Refused where oneDNN has none
Desc dense(DType dtype, const Dims& dims);     // row-major
Desc any(DType dtype, const Dims& dims);       // in the layout that a primitive prefers
dnnl::primitive_attr attributes();             // every primitive's: its scratchpad is ours

// Why there is no plan. planned() returns it as Unsupported.
struct Refused {
  std::string reason;
};

// A tensor of the program: its place is known when it runs.
struct Value {
  size_t index;
  Desc desc;
};

enum class Packing { in_each_run, before };  // of weights: inside every time, or when they change

class Program {
 public:
  // A tensor of the problem; throws Refused where it has no elements. So it comes before oneDNN is asked for anything:
  // some of its descriptors do not survive an extent of 0.
  Value tensor(Slot slot, const Desc& desc);
  Value temporary(const Desc& desc);

  // `value` in another layout or type: itself, or a copy that each run makes. `name` is for Plan::algorithm.
  Value copied(const Value& value, const Desc& wanted, const char* name);
  // Weights of the problem in another layout: a copy that each run makes, or one that Plan::prepare() makes.
  Value packed(Slot slot, const Value& weights, const Desc& wanted, Packing packing);
  // The other way: where a primitive writes `to` in its layout, and what brings it there afterwards.
  Value staged(const Value& to, const Desc& wanted);
  void unstage(const Value& staged, const Value& to, const char* name);

  using Arguments = std::vector<std::pair<int, Value>>;  // DNNL_ARG_SRC and so on
  template <class Primitive>
  void add(const typename Primitive::primitive_desc& chosen, const Arguments& arguments) {
    check(chosen.impl_info_str());
    append(Primitive(chosen), chosen.scratchpad_desc(), arguments);
  }
  // For layers of which oneDNN calls "reference" what runs its matrix products.
  template <class Primitive>
  void add_composed(const typename Primitive::primitive_desc& chosen, const Arguments& arguments) {
    note(chosen.impl_info_str());
    append(Primitive(chosen), chosen.scratchpad_desc(), arguments);
  }
  // A step of our own.
  void add(std::function<void(const Args&)> step);
  template <class T>
  WorkspacePiece<T> workspace(int64_t count) {
    return layout_.add<T>(count);
  }
  // Where a temporary lies in a run.
  WorkspacePiece<void> place_of(const Value& temporary) const { return values_[temporary.index].piece; }

  Plan plan() &&;

 private:
  struct Bound {
    dnnl::memory memory;
    Slot slot;  // of a tensor; its index is negative for a temporary
    WorkspacePiece<void> piece;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    std::function<void(const Args&)> own;  // instead
  };
  void check(const std::string& implementation);  // throws Refused for reference code
  void note(const std::string& implementation);
  void append(dnnl::primitive primitive, const Desc& scratchpad, const Arguments& arguments);
  void reorder(const Value& from, const Value& to, const char* name);
  void run(const std::vector<Step>& steps, const Args& args);

  dnnl::stream stream_{engine()};
  std::vector<Bound> values_;
  std::vector<Step> steps_, before_;
  std::vector<Slot> packed_before_;
  WorkspaceLayout layout_;
  std::string chosen_, copies_;
};

// The plan of what `build` adds.
Plan planned(const std::function<void(Program&)>& build);
// The same where nothing is packed before it is Unsupported: it would be the other plan once more.
Plan planned(Packing packing, const std::function<void(Program&)>& build);

}  // namespace duet::onednn
