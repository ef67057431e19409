// SPDX-License-Identifier: Apache-2.0
// For implementations: the plan of this family's fused op by separate ops (core/unfused_plan.h).
#pragma once
#include <utility>

#include "core/unfused_plan.h"
#include "ops/conv/conv2d_bias.h"
#include "ops/elementwise/bias.h"

namespace duet {

// bias works in place.
inline Plan unfused(const Conv2dBias& p, Context& context) {
  using P = Conv2dBias;
  const Conv2d& conv = p.conv;
  if (size_of(conv.dtype) == 2) return Unsupported{kRoundsBetween};
  const int64_t pixels = conv.ho() * conv.wo();
  const bool last = conv.layout == Layout::nhwc;
  UnfusedPlan plan(context);
  plan.add(conv, {P::x, P::filter, P::y});
  plan.add(Bias{.outer = last ? conv.n * pixels : conv.n,
                .c = conv.k,
                .inner = last ? 1 : pixels,
                .act = p.act,
                .dtype = conv.dtype},
           {P::y, P::bias, P::y});
  return std::move(plan).plan();
}

}  // namespace duet
