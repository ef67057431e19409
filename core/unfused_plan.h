// SPDX-License-Identifier: Apache-2.0
// The plan of a fused op by the separate ops that it stands for: what implementations named `unfused` return, so that
// one run says what the fusion buys. Each part is the `tuned` implementation of its op on the same device. Others would
// compare algorithms and libraries as well.
//   UnfusedPlan plan(context);
//   const auto between = plan.between(spec);
//   plan.add(Add{...}, {Whole::x, Whole::residual, between});
//   plan.add(LayerNorm{...}, {between, Whole::gamma, ...});
//   return std::move(plan).plan();
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "core/composed_plan.h"

namespace duet {

class UnfusedPlan {
 public:
  using Source = ComposedPlan::Source;
  explicit UnfusedPlan(Context& context) : context_(&context) {}

  Source between(const TensorSpec& spec) { return whole_.between(spec); }
  // sources: of each of the part's tensors. Once a part is not supported, the whole is not.
  template <class P>
  void add(const P& part, std::vector<Source> sources) {
    whole_.add(plan_of(P::name, &part), part.tensors(), std::move(sources));
  }
  Plan plan() && { return std::move(whole_).plan(); }

 private:
  // Its algorithm, or the reason why it is not supported, begins with the op's name.
  Plan plan_of(std::string_view op, const void* problem) const;

  Context* context_;
  ComposedPlan whole_;
};

// Where a dtype of 16 bits would be rounded to between two ops, and the contract of the fused one allows no such
// rounding.
inline constexpr const char* kRoundsBetween = "separate ops round to 16 bits between them, which the contract excludes";

}  // namespace duet
