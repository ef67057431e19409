// SPDX-License-Identifier: Apache-2.0
// Where a series of times moved to another level and stayed there. For reports only: it looks back, so it finds slow
// drifts and steps too small for an alarm, days later. E-divisive means as in Matteson and James 2014: a series is
// split where the energy distance of both sides is largest, and each side again; what is left is then merged by t-tests
// (as Apache Otava does) in place of random permutations, so that equal times give equal answers. Sources: Matteson and
// James, JASA 109 (2014); Daly et al., ICPE 2020.
#pragma once
#include <span>
#include <vector>

namespace duet::history {

inline constexpr size_t kMinSeries = 10;         // times that a series needs
inline constexpr size_t kMinSegment = 3;         // times on either side of a change
inline constexpr size_t kMaxSearched = 1000;     // the last ones: time grows with the square of their number
inline constexpr double kMaxP = 0.01;            // of the t-test, after correction for the number of places
inline constexpr double kMinLevelChange = 0.03;  // share by which the medians of both sides differ

struct ChangePoint {
  size_t first = 0;   // index of the first time of the new level
  double change = 0;  // median after / median before - 1, each as far as the next change
  double p = 1;
};

// By index. Times are positive.
std::vector<ChangePoint> change_points(std::span<const double> times_s);

// Two-sided p of Student's t-test with pooled variance, each sample of at least two values. Public for its test.
double t_test_p(std::span<const double> x, std::span<const double> y);

}  // namespace duet::history
