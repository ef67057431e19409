// SPDX-License-Identifier: Apache-2.0
// The level of a value: what quantise stores and fake_quantise goes back from. Their references use these functions;
// every implementation computes the same numbers, so results are compared bit for bit.
//   level = clamp(rne(x / scale) + z, lo, hi),  z = clamp(zero, lo, hi)
// x / scale is one division, rounded to f32; rne rounds to the nearest integer, ties to even. What is special:
//   - A quotient that is not a number counts as 0: x or scale is NaN, 0 / 0, inf / inf. The level is then z.
//   - A scale of 0 gives an infinite quotient for any other x: the level is lo or hi.
//   - A zero point outside [lo, hi] counts as the nearer end.
//   - A subnormal x or scale counts as what it is.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/dtype.h"

namespace duet {

inline double quantised_zero(double zero, int64_t lo, int64_t hi) {
  return std::clamp(zero, static_cast<double>(lo), static_cast<double>(hi));
}

// The level before it is clamped; infinite where the quotient is. f64 is for finite differences: its quotient is not
// rounded to f32.
inline double unclamped_level(DType dtype, double x, double scale, double zero, int64_t lo, int64_t hi) {
  const double quotient = dtype == DType::f64 ? x / scale : static_cast<float>(x) / static_cast<float>(scale);
  return (std::isnan(quotient) ? 0 : std::nearbyint(quotient)) + quantised_zero(zero, lo, hi);
}

// (level - z) scale: one product, rounded to f32.
inline double dequantised(DType dtype, double level, double scale, double z) {
  return dtype == DType::f64 ? (level - z) * scale : static_cast<float>(level - z) * static_cast<float>(scale);
}

}  // namespace duet
