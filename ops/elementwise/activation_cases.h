// SPDX-License-Identifier: Apache-2.0
// What the smooth activations (gelu, sigmoid, tanh) share: their input x is drawn where the curve bends, and tests also
// reach to where it is flat. `odd`: further tests.
#pragma once
#include "core/problem.h"
#include "ops/elementwise/elementwise_cases.h"

namespace duet {

inline constexpr Fill kActivationFill = Fill::normal(0, 2);

inline Cases activation_cases(Scale scale, const Cases& odd = {}) {
  const Cases test{
      {"where the curve is flat, past the range of exp in f32", "n:1031 x=-100..100"},
      {"one NaN, the last", "n:1031 x=last:nan"},
  };
  return with_odd(scale, elementwise_cases(scale, test), odd);
}

}  // namespace duet
