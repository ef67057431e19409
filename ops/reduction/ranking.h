// SPDX-License-Identifier: Apache-2.0
// The order of elements in max, argmax, top_k and accuracy. NaN ranks above everything, infinity included, and all NaN
// are equal, as in NumPy and PyTorch. Zeros of both signs are equal. Of equal elements the one of the lowest index
// ranks first. Subnormal numbers rank by their values; only y of max may be 0 where the largest is one.
#pragma once
#include <cmath>
#include <string>

#include "core/problem.h"

namespace duet::ranking {

// Whether a ranks above b. For references.
inline bool above(double a, double b) { return !std::isnan(b) && (std::isnan(a) || a > b); }

inline constexpr Fill kFill = Fill::normal(0, 1);  // uniform numbers in bf16 would often have the same largest one

// Of top_k and accuracy.
inline std::string invalid_k(int64_t rows, int64_t cols, int64_t k) {
  if (k >= 1 && (k <= cols || rows == 0)) return "";
  return "k must lie in 1 to cols, " + std::to_string(cols) + "; is " + std::to_string(k);
}

}  // namespace duet::ranking
