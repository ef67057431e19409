// SPDX-License-Identifier: Apache-2.0
// What the smooth activations (gelu, sigmoid, tanh) share: their input x is drawn where the curve bends, and tests also
// reach to where it is flat.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

inline constexpr Fill kActivationFill = Fill::normal(0, 2);

inline Cases activation_cases(Scale scale) {
  const Cases test{
      {"where the curve is flat, past the range of exp in f32", "n:1031 x=-100..100"},
  };
  const Cases more = scale == Scale::test ? across(kFloatTypes, test) : Cases{};
  return concat({elementwise_cases(scale), more});
}

}  // namespace duet
