// SPDX-License-Identifier: Apache-2.0
#include "models/gradient_work.h"

#include "core/error.h"
#include "models/choice.h"
#include "ops/elementwise/axpy.h"
#include "ops/elementwise/unscale.h"
#include "ops/optimiser/clip_grad_norm.h"
#include "ops/reduction/norm2.h"

namespace duet {

GradientWork::GradientWork(Tape& tape, const std::string& model, const Tape::Preferences& preferences,
                           int64_t accumulate, double max_norm)
    : tape_(tape), context_(tape.context()), count_(tape.parameter_count()) {
  if (!tape.has_gradients() || tape.named_parameters().empty())
    throw Error("model {} updates its parameters without gradients that could be added up or clipped", model);
  const Var first = tape.gradient(tape.named_parameters().front().second);
  const DType dtype = tape.dtype(first);
  gradients_ = {tape.tensor(first).data, dtype, Role::inout};
  bytes_ = count_ * size_of(dtype);
  const auto make = [&](const auto& problem) {
    Plan plan = Unsupported{""};
    context_.enter([&] { plan = choose(Problem::of(problem), context_, preferences, Choice::order).plan; });
    if (plan.workspace_bytes() > workspace_.bytes()) workspace_ = Buffer(context_, plan.workspace_bytes());
    return plan;
  };
  if (accumulate > 1) {
    add_ = make(Axpy{.n = count_, .dtype = dtype, .alpha = 1 / static_cast<double>(accumulate)});
    sum_ = Buffer(context_, bytes_, "sum of gradients");
  }
  if (max_norm > 0) {
    clipped_ = gradients_;
    for (size_t i = 0; i < tape.nodes().size(); ++i)
      if (const Tape::Node& node = tape.nodes()[i]; node.problem.name() == Unscale::name) {
        if (unscale_node_) throw Error("the step of model {} has more than one node of unscale", model);
        const Var unscaled = node.slots[Unscale::y.index];
        clipped_ = {tape.tensor(unscaled).data, tape.dtype(unscaled), Role::inout};
        unscale_node_ = i;
      }
    norm_ = make(Norm2{.n = count_, .dtype = clipped_.dtype});
    clip_ = make(ClipGradNorm{.n = count_, .dtype = clipped_.dtype, .max_norm = max_norm});
    norm_value_ = Buffer(context_, size_of(statistic_dtype(dtype)), "norm of the gradients");
    norm_dtype_ = statistic_dtype(dtype);
  }
}

void GradientWork::begin() {
  if (add_) context_.fill_bytes(sum_.data(), 0, bytes_);
}

void GradientWork::add() {
  if (!add_) return;
  const Tensor tensors[] = {gradients_, {sum_.data(), gradients_.dtype, Role::inout}};
  add_(Args(tensors, workspace_.data(), workspace_.bytes()));
}

void GradientWork::update(size_t first_phase) {
  if (add_) {
    context_.synchronize();
    context_.copy_within(gradients_.data, sum_.data(), bytes_);
  }
  if (!unscale_node_) {
    if (clip_) clip();
    for (size_t p = first_phase; p < tape_.phases().size(); ++p) tape_.run_phase(p);
    return;
  }
  const NvtxRange phase(optimiser_);
  for (size_t i = 0; i < tape_.nodes().size(); ++i) {
    const Tape::Node& node = tape_.nodes()[i];
    if (node.phase < first_phase) continue;
    const NvtxRange op(*node.range);
    tape_.run_node(i);
    if (i == *unscale_node_) clip();
  }
}

void GradientWork::clip() {
  const Tensor norm{norm_value_.data(), norm_dtype_, Role::inout};
  const Tensor of_norm[] = {clipped_, norm}, of_clip[] = {norm, clipped_};
  norm_(Args(of_norm, workspace_.data(), workspace_.bytes()));
  clip_(Args(of_clip, workspace_.data(), workspace_.bytes()));
}

}  // namespace duet
