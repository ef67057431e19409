// SPDX-License-Identifier: Apache-2.0
// The rule for long sums: they are formed in f32 or better, and no term passes through more than kRun + 64 additions.
// Longer sums are split into runs of at most kRun terms, whose partial sums are added in a tree or in double. Without
// this rule the bound of a sum of 16 Mi terms would be 100 % of it, and any answer would pass.
#pragma once
#include <algorithm>
#include <cstdint>

namespace duet {

inline constexpr int64_t kRun = 2048;

// Additions that a term of a sum of n terms may pass through: the n of gamma(n, u) in the sum's tolerance.
constexpr double additions(int64_t n) { return static_cast<double>(std::min(n, kRun + 64)); }

}  // namespace duet
