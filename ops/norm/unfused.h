// SPDX-License-Identifier: Apache-2.0
// For implementations: the plans of this family's fused ops by separate ops (core/unfused_plan.h).
#pragma once
#include <utility>
#include <vector>

#include "core/unfused_plan.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/relu.h"
#include "ops/norm/add_layernorm.h"
#include "ops/norm/add_rmsnorm.h"
#include "ops/norm/batchnorm.h"

namespace duet {

inline Plan unfused(const AddLayerNorm& p, Context& context) {
  using P = AddLayerNorm;
  UnfusedPlan plan(context);
  plan.add(Add{.n = p.rows * p.cols, .dtype = p.dtype}, {P::x, P::residual, P::s});
  plan.add(LayerNorm{p.rows, p.cols, p.dtype, p.eps}, {P::s, P::gamma, P::beta, P::y, P::mean, P::rstd});
  return std::move(plan).plan();
}

inline Plan unfused(const AddRmsNorm& p, Context& context) {
  using P = AddRmsNorm;
  UnfusedPlan plan(context);
  plan.add(Add{.n = p.rows * p.cols, .dtype = p.dtype}, {P::x, P::residual, P::s});
  plan.add(RmsNorm{p.rows, p.cols, p.dtype, p.eps}, {P::s, P::gamma, P::y, P::rstd});
  return std::move(plan).plan();
}

// What follows a normalisation: relu in place; or a residual with relu, to which it gives its result in the workspace,
// because y may be the residual. P: BatchNorm or BatchNormInference. sources: of the normalisation's tensors, with y's
// as y is placed.
template <class P>
Plan unfused_norm(const P& p, Context& context, auto&& sources) {
  if (!p.relu() && !p.residual) return Unsupported{"nothing is fused without act and residual"};
  if (p.residual && size_of(p.dtype) == 2) return Unsupported{kRoundsBetween};
  P plain = p;
  plain.act = NormAct::none;
  plain.residual = false;
  UnfusedPlan plan(context);
  using Source = UnfusedPlan::Source;
  const Source y = p.residual ? plan.between(P::y.of(p.dtype, p.shape())) : Source(P::y);
  plan.add(plain, sources(y));
  if (p.residual)
    plan.add(Add{.n = p.elements(), .dtype = p.dtype, .act = p.relu() ? Act::relu : Act::none}, {y, P::added, P::y});
  else
    plan.add(Relu{.n = p.elements(), .dtype = p.dtype}, {y, P::y});
  return std::move(plan).plan();
}

inline Plan unfused(const BatchNorm& p, Context& context) {
  using P = BatchNorm;
  return unfused_norm(p, context, [](const UnfusedPlan::Source& y) -> std::vector<UnfusedPlan::Source> {
    return {P::x, P::gamma, P::beta, P::running_mean, P::running_var, y, P::mean, P::rstd};
  });
}

inline Plan unfused(const BatchNormInference& p, Context& context) {
  using P = BatchNormInference;
  return unfused_norm(p, context, [](const UnfusedPlan::Source& y) -> std::vector<UnfusedPlan::Source> {
    return {P::x, P::gamma, P::beta, P::mean, P::var, y};
  });
}

// g = dy where y > 0 lies in the workspace: dx may be dy.
inline Plan unfused(const BatchNormBackward& p, Context& context) {
  using P = BatchNormBackward;
  if (!p.relu()) return Unsupported{"nothing is fused without act"};
  if (p.residual) return Unsupported{"dresidual may be x, which the normalisation's gradient reads after it"};
  P plain = p;
  plain.act = NormAct::none;
  UnfusedPlan plan(context);
  const auto g = plan.between(P::dy.of(p.dtype, p.shape()));
  plan.add(ReluBackward{.n = p.elements(), .dtype = p.dtype}, {P::y, P::dy, g});
  plan.add(plain, {P::x, P::gamma, P::mean, P::rstd, g, P::dx, P::dgamma, P::dbeta});
  return std::move(plan).plan();
}

}  // namespace duet
