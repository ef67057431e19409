// SPDX-License-Identifier: Apache-2.0
// What all ops that sum products share (gemm, linear, conv2d): their precisions, and the tolerance of their sums.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/summation.h"

namespace duet {

// The tolerance of one output that is a sum of `count` products of dtype, scaled or with a bias, rounded to dtype. Its
// claim's abs_sum is the root_sum of the products. Sums are formed in f32 (f64 for f64). `extra`: further roundings,
// one each for a scale and for a bias.
//  - The products and their additions: sum_error(), with its w.
//  - Matrix units (bf16, f16, tf32) add blocks of 8 products or more (4 in tf32) to the accumulator. They align each
//    block and the accumulator to the largest of them and cut off the rest: twice the error of a rounding, once more
//    for the alignment (Fasi et al. 2021, Numerical behavior of NVIDIA tensor cores, doi 10.7717/peerj-cs.330). What
//    they cut off from the accumulator has a mean, as it always lowers it: about u a step, of a partial sum that is
//    between 0 and |sum| + root_sum. It adds up over the steps; max_chain: products in one accumulator,
//    where the kernels of an op split longer sums (kLongestChain: of ops whose sums may have millions).
//  - tf32: both factors lose their low bits first. Hardware that is given plain f32 truncates them: 2u each, a mean of
//    2u for a product, and at most 2u more or less, independently.
//  - The result, wrong by the above, is rounded to dtype: u |want|, and a second-order part that `1 + u` covers.
// product_error() has all but the last: the factors of |sum| and of root_sum before the result is rounded.
inline SumError product_error(double count, double extra, DType dtype, Math math = Math::ieee, double w = kTransformed,
                              Terms terms = Terms::may_be_alike, double max_chain = HUGE_VAL) {
  const bool matrix_unit = math == Math::tf32 || dtype == DType::bf16 || dtype == DType::f16;
  const double u = std::min(unit_roundoff(DType::f32), unit_roundoff(dtype));
  SumError error = sum_error(count + extra, u, matrix_unit ? kTransformed : w, terms);
  if (matrix_unit) {
    const double steps = std::min(count, max_chain) / (math == Math::tf32 ? 4 : 8) + 1,
                 cut = u * (steps + 2 * std::sqrt(steps));
    error = {2 * error.rel + cut, 2 * error.root_sum + cut};
  }
  return {error.rel + 4 * unit_roundoff(math), error.root_sum + 6 * unit_roundoff(math)};
}
inline Tolerance product_sum_tolerance(double count, double extra, DType dtype, Math math, double w = kTransformed,
                                       Terms terms = Terms::may_be_alike, double max_chain = HUGE_VAL) {
  const SumError error = product_error(count, extra, dtype, math, w, terms, max_chain);
  const double u_out = unit_roundoff(dtype);
  return {.rel = error.rel * (1 + u_out) + (u_out > unit_roundoff(DType::f32) ? u_out : 0),
          .abs_sum = error.root_sum * (1 + u_out),
          .abs = underflow(dtype)};
}

// The same of products of f8e4m3 with a result in dtype. Matrix units add blocks of 32 of them to an accumulator that
// keeps about 14 bits on NVIDIA's Hopper (DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.3.2), so that
// kernels add it to sums in f32 after kEightBitChain products at most. What a chain cuts off has a mean, relative to
// the chain's partial sum; chains of either sign make these as good as independent, and all of one sign add up to
// |sum|.
inline constexpr double kEightBitChain = 128;
inline Tolerance float8_sum_tolerance(double count, double extra, DType dtype) {
  constexpr double kUnit = 0x1p-13;  // twice the rounding of 14 bits
  const SumError error = product_error(count, extra, dtype);
  const double steps = std::min(count, kEightBitChain) / 32 + 1, cut = kUnit * (steps + 2 * std::sqrt(steps));
  const double u_out = unit_roundoff(dtype);
  return {.rel = (error.rel + cut) * (1 + u_out) + u_out,
          .abs_sum = (error.root_sum + cut) * (1 + u_out),
          .abs = underflow(dtype)};
}

// Of bf16 and f16 a product may be rounded to dtype before c, a bias or a slope is applied to it: libraries do so where
// that is a pass of its own. The error, relative to the product; references claim it beside the errors of its sum.
inline double rounding_before_addition(DType dtype) {
  const double u = unit_roundoff(dtype);
  return u > unit_roundoff(DType::f32) ? u * (1 + u) : 0;  // 1 + u: the result is rounded after that
}

// Longer sums are split over threads and blocks.
inline constexpr double kLongestChain = 1 << 17;

// Whether all terms of a sum are alike, so that they round alike: |sum| is near the largest that their squares allow.
// 0.99 of it is a spread of 14 %, which makes the roundings of the additions independent.
inline bool are_alike(double count, double sum, double root_sum) {
  return std::abs(sum) > 0.99 * std::sqrt(count) * root_sum;
}

// What to claim in place of root_sum where the tolerance has Terms::vary, but these terms are alike: so much that the
// bound is that of Terms::may_be_alike.
inline double root_sum_of_alike(double count, double sum, double root_sum, DType dtype, Math math,
                                double w = kTransformed, double max_chain = HUGE_VAL) {
  const SumError narrow = product_error(count, 0, dtype, math, w, Terms::vary, max_chain);
  const SumError wide = product_error(count, 0, dtype, math, w, Terms::may_be_alike, max_chain);
  return ((wide.rel - narrow.rel) * std::abs(sum) + wide.root_sum * root_sum) / narrow.root_sum;
}

inline std::string invalid_precision(DType dtype, Math math) {
  if (!is_float(dtype)) return std::string("dtype ") + name_of(dtype) + ": allowed are f64, f32, bf16, f16";
  if (math == Math::tf32 && dtype != DType::f32) return "math tf32: only with dtype f32";
  return {};
}

// f32, f32 with TF32 products (another permitted answer, so a case of its own), bf16 and f16.
inline constexpr Words kAllPrecisions{"dtype:f32", "dtype:f32 math:tf32", "dtype:bf16", "dtype:f16"};

}  // namespace duet
