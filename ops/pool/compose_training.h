// SPDX-License-Identifier: Apache-2.0
// For implementations: the plan of max_pool2d_training from those of its passes.
#pragma once
#include <utility>

#include "core/composed_plan.h"
#include "ops/pool/max_pool2d_training.h"

namespace duet {

// The index lies in the workspace.
inline Plan compose(const MaxPool2dTraining& p, Plan forward, Plan backward) {
  using P = MaxPool2dTraining;
  const auto forward_tensors = p.forward().tensors();
  ComposedPlan whole;
  const auto index = whole.between(forward_tensors[MaxPool2d::index.index]);
  whole.add(std::move(forward), forward_tensors, {P::x, P::y, index});
  whole.add(std::move(backward), p.backward().tensors(), {index, P::dy, P::dx});
  return std::move(whole).plan();
}

}  // namespace duet
