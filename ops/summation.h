// SPDX-License-Identifier: Apache-2.0
// Long sums: how they are to be formed, and how far rounding carries them. References add them up in a TermSum.
//
// The rule for means, norms and statistics: they are formed in f32 or better, and no term passes through more than
// kRun + 64 additions. Longer sums are split into runs of at most kRun terms, whose partial sums are added in a tree or
// in double.
//
// The error of a sum of n terms. The worst case, gamma(n) sum |t|, exceeds the sum itself when n is large and the terms
// cancel, so that any answer would pass: kernels never come near it. Each addition rounds its partial sum S_k, and the
// roundings are as good as independent and without a mean: together they have a standard deviation of at most
// u / sqrt(3) sqrt(n) max |S_k| (Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci.
// Comput. 41(5), 2019; with random data: 42(5), 2020). Partial sums of terms that were drawn independently of their
// place stay within |sum| + 3 root_sum, where root_sum is the root of the sum of t^2; all along they are root_sum /
// sqrt(6) from a straight line on average, and hardly ever 1.25 root_sum. So the bound is
//   kDeviations / sqrt(3) sqrt(n) u (|sum| + w root_sum)
// in every order of summation, with w = kDirect for a sum that is formed as it is written, and w = kTransformed where
// it may be formed by Winograd's F(4x4, 3x3), whose transforms enlarge errors sevenfold (Lavin and Gray,
// arXiv:1509.09308, table 5). Where the worst case is less, as for few terms, the bound is that.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/problem.h"
#include "core/term_sum.h"

namespace duet {

inline constexpr int64_t kRun = 2048;

// A normal deviate exceeds so many standard deviations once in 5e8 cases.
inline constexpr double kDeviations = 6;

// What n independent roundings amount to, in roundings that all go the same way: the n of gamma(n, u).
inline double independent(double n) { return std::min(n, kDeviations / std::sqrt(3.0) * std::sqrt(n)); }

// The factors of |sum| and of root_sum in the error of a sum.
struct SumError {
  double rel, root_sum;
};
inline constexpr double kDirect = 1.25, kTransformed = 3;

// Terms that are all alike round alike, where a case names such a fill: an eighth of the worst case. `vary` is for
// references that look at the terms of each sum: of 131072 terms that eighth is 13 times what roundings add up to.
enum class Terms : uint8_t { may_be_alike, vary };

inline SumError sum_error(double n, double u, double w, Terms terms = Terms::may_be_alike) {
  const double deviations = kDeviations / std::sqrt(3.0) * u, alike = terms == Terms::vary ? 0 : u * n / 8;
  // + 1: the rounding of the terms.
  const SumError random{deviations * std::sqrt(n) + alike, deviations * (w * std::sqrt(n) + 1)};
  const double worst = gamma(n, u) * std::sqrt(n);  // sum |t| <= sqrt(n) root_sum
  return worst < random.rel + random.root_sum ? SumError{0, worst} : random;
}

}  // namespace duet
