// SPDX-License-Identifier: Apache-2.0
// For implementations: the plans of this family's fused ops by separate ops (core/unfused_plan.h).
#pragma once
#include <utility>

#include "core/unfused_plan.h"
#include "ops/elementwise/bias.h"
#include "ops/elementwise/gelu.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/gelu_linear.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/linear.h"

namespace duet {

// bias works in place, with relu where that is the activation. gelu keeps what it is applied to.
inline Plan unfused(const Linear& p, Context& context) {
  using P = Linear;
  const bool gelu = p.act == Act::gelu;
  if (gelu && size_of(p.dtype) == 2) return Unsupported{kRoundsBetween};
  const Slot sum = gelu ? P::pre : P::y;
  UnfusedPlan plan(context);
  plan.add(Gemm{.m = p.n, .n = p.out, .k = p.in, .trans_b = true, .dtype = p.dtype, .math = p.math}, {P::x, P::w, sum});
  plan.add(Bias{.outer = p.n, .c = p.out, .act = gelu ? Act::none : p.act, .dtype = p.dtype}, {sum, P::bias, sum});
  if (gelu) plan.add(Gelu{.n = p.n * p.out, .dtype = p.dtype}, {P::pre, P::y});
  return std::move(plan).plan();
}

inline Plan unfused(const LinearBackward& p, Context& context) {
  using P = LinearBackward;
  UnfusedPlan plan(context);
  UnfusedPlan::Source g = P::dy;
  if (p.act != Act::none) g = plan.between(P::dy.of(p.dtype, {p.n, p.out}));
  if (p.act == Act::relu) plan.add(ReluBackward{.n = p.n * p.out, .dtype = p.dtype}, {P::y, P::dy, g});
  if (p.act == Act::gelu) plan.add(GeluBackward{.n = p.n * p.out, .dtype = p.dtype}, {P::pre, P::dy, g});
  plan.add(Gemm{.m = p.n, .n = p.in, .k = p.out, .dtype = p.dtype, .math = p.math}, {g, P::w, P::dx});
  plan.add(Gemm{.m = p.out, .n = p.in, .k = p.n, .trans_a = true, .dtype = p.dtype, .math = p.math}, {g, P::x, P::dw});
  plan.add(BiasBackward{.outer = p.n, .c = p.out, .dtype = p.dtype}, {g, P::dbias});
  return std::move(plan).plan();
}

inline Plan unfused(const GeluLinearBackwardData& p, Context& context) {
  using P = GeluLinearBackwardData;
  UnfusedPlan plan(context);
  plan.add(Gemm{.m = p.n, .n = p.in, .k = p.out, .dtype = p.dtype, .math = p.math}, {P::dy, P::w, P::dh});
  plan.add(GeluBackward{.n = p.n * p.in, .dtype = p.dtype}, {P::h, P::dh, P::dh});
  plan.add(BiasBackward{.outer = p.n, .c = p.in, .dtype = p.dtype}, {P::dh, P::dbias});
  return std::move(plan).plan();
}

}  // namespace duet
