// SPDX-License-Identifier: Apache-2.0
// Order statistics, deterministic: exact for small samples, by the normal approximation for large ones.
// Sources: Mann and Whitney 1947; Hodges and Lehmann 1963; Benjamini and Hochberg 1995.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace duet::results {

// An estimate with an interval that says what it is: "95 %", or "min-max" where the sample is too small for any
// interval at that confidence.
struct Interval {
  double value = 0, lo = 0, hi = 0;
  std::string label;
  bool confident() const { return label != kMinMax; }
  static constexpr const char* kMinMax = "min-max";
};

// The middle value, or the mean of the two middle ones. Throws std::invalid_argument on an empty sample.
double median(std::vector<double> values);

// The smallest value that at least the share p of all values does not exceed (nearest rank: one of the values, nothing
// is interpolated). 0 < p <= 1. Throws std::invalid_argument on an empty sample and on another p.
double percentile(std::vector<double> values, double p);

// Median with the widest pair of order statistics that still covers it at `confidence`: needs 6 values for 95 %.
Interval median_interval(std::vector<double> values, double confidence = 0.95);

// counts[u] = number of arrangements of a and b distinct values with Mann-Whitney statistic u, u = 0 ... a * b.
std::vector<double> mann_whitney_counts(size_t a, size_t b);

// Two-sided exact p. A tie counts half; with ties the value is rounded towards the larger p.
double mann_whitney_p(std::span<const double> x, std::span<const double> y);

// Adjusted p values (q) in the order given: rejecting those with q <= 0.05 keeps the expected share of wrong rejections
// below 5 %, however many tests there are.
std::vector<double> benjamini_hochberg(std::span<const double> p_values);

// Ratio of two positive samples: Hodges-Lehmann estimate on logarithms, interval by inverting the exact test.
// 5 against 5 gives 95 %; 3 against 3 gives none and is labelled min-max.
Interval ratio_interval(std::span<const double> numerator, std::span<const double> denominator,
                        double confidence = 0.95);

// Of positive values; for footers only, ratios have no arithmetic mean.
double geometric_mean(std::span<const double> values);

}  // namespace duet::results
