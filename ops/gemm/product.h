// SPDX-License-Identifier: Apache-2.0
// What all ops that sum products share (gemm, linear, conv2d): their precisions, and the tolerance of their sums.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/problem.h"

namespace duet {

// The tolerance of one output that is a sum of `count` products of dtype, scaled or with a bias, rounded to dtype. Sums
// are formed in f32 (f64 for f64). `extra`: further roundings, one each for a scale and for a bias.
//  - A product is rounded at most once and passes through at most count - 1 additions, in any order:
//    gamma(count + extra) (Higham, 3.1).
//  - Matrix units (bf16, f16, tf32) truncate, which is 2u, and align each block of w >= 4 products and the accumulator
//    to the largest before they add, which is another 2u for the accumulator's share: 2 (1 + 1/4) u, taken as 3u a term
//    (Fasi et al. 2021, Numerical behavior of NVIDIA tensor cores, doi 10.7717/peerj-cs.330).
//  - tf32: both factors lose their low bits first. Hardware that is given plain f32 truncates them: 2u each.
//  - The result, wrong by the above, is rounded to dtype: u |want|, and a second-order part that `1 + u` covers.
inline Tolerance product_sum_tolerance(double count, double extra, DType dtype, Math math) {
  const bool matrix_unit = math == Math::tf32 || dtype == DType::bf16 || dtype == DType::f16;
  const double u = std::min(unit_roundoff(DType::f32), unit_roundoff(dtype)), u_out = unit_roundoff(dtype);
  const double sum = gamma((matrix_unit ? 3 : 1) * count + extra, u);
  const double factors = 2 * (2 * unit_roundoff(math)) * (1 + unit_roundoff(math));
  return {.rel = u_out > u ? u_out : 0, .abs_sum = (sum + factors * (1 + sum)) * (1 + u_out), .abs = underflow(dtype)};
}

inline std::string invalid_precision(DType dtype, Math math) {
  if (!is_float(dtype)) return std::string("dtype ") + name_of(dtype) + ": allowed are f64, f32, bf16, f16";
  if (math == Math::tf32 && dtype != DType::f32) return "math tf32: only with dtype f32";
  return {};
}

// f32, f32 with TF32 products (another permitted answer, so a case of its own), bf16 and f16.
inline constexpr Words kAllPrecisions{"dtype:f32", "dtype:f32 math:tf32", "dtype:bf16", "dtype:f16"};

}  // namespace duet
