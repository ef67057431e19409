// SPDX-License-Identifier: Apache-2.0
// For implementations: the plan of this family's fused op by separate ops (core/unfused_plan.h).
#pragma once
#include <utility>
#include <vector>

#include "core/unfused_plan.h"
#include "ops/loss/cross_entropy_fused.h"

namespace duet {

// lse lies between the two.
inline Plan unfused(const CrossEntropyFused& p, Context& context) {
  using P = CrossEntropyFused;
  const CrossEntropy forward{p.rows, p.cols, p.dtype, p.smooth};
  const CrossEntropyBackward backward{p.rows, p.cols, p.dtype, p.smooth, p.scaled};
  UnfusedPlan plan(context);
  const auto lse = plan.between(forward.tensors()[CrossEntropy::lse.index]);
  plan.add(forward, {P::x, P::label, P::loss, lse});
  std::vector<UnfusedPlan::Source> sources{P::x, P::label, lse, P::dx};
  if (p.scaled) sources.push_back(P::scale);
  plan.add(backward, std::move(sources));
  return std::move(plan).plan();
}

}  // namespace duet
