// SPDX-License-Identifier: Apache-2.0
// Statistics of results/ against published tables and worked examples.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "results/statistics.h"

namespace duet::results {
namespace {

std::vector<double> from(double first, size_t count) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Statistics, Median) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_THROW(median({}), std::invalid_argument);
}

TEST(Statistics, APercentileIsOneOfTheValues) {
  EXPECT_EQ(percentile({15, 20, 35, 40, 50}, 0.3), 20);  // Wikipedia's example of the nearest rank
  EXPECT_EQ(percentile({50, 15, 40, 20, 35}, 0.4), 20);
  EXPECT_EQ(percentile({15, 20, 35, 40, 50}, 0.5), 35);
  EXPECT_EQ(percentile({15, 20, 35, 40, 50}, 1), 50);
  EXPECT_EQ(percentile({7}, 0.01), 7);
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(percentile(hundred, i / 100.0), i);
  EXPECT_THROW(percentile({}, 0.5), std::invalid_argument);
  for (const double p : {0.0, -0.1, 1.01, double(NAN)}) EXPECT_THROW(percentile({1, 2}, p), std::invalid_argument);
}

TEST(Statistics, SmallestMannWhitneyPIsThePublishedOne) {
  const std::pair<size_t, double> table[] = {{3, 0.1},    {4, 0.0286},  {5, 0.0079},
                                             {6, 0.0022}, {7, 0.00058}, {8, 0.000155}};
  for (const auto& [n, p] : table) EXPECT_NEAR(mann_whitney_p(from(0, n), from(100, n)), p, 0.02 * p) << n;
}

TEST(Statistics, MannWhitneyIsTwoSidedAndCapped) {
  EXPECT_EQ(mann_whitney_p(from(0, 5), from(100, 5)), mann_whitney_p(from(100, 5), from(0, 5)));
  EXPECT_EQ(mann_whitney_p(from(1, 3), from(1, 3)), 1);
  // x = {1, 2, 5}, y = {3, 4, 6}: U = 2, and 1 + 1 + 2 of the 20 arrangements are as far out.
  EXPECT_DOUBLE_EQ(mann_whitney_p(std::vector<double>{1, 2, 5}, std::vector<double>{3, 4, 6}), 2 * 4 / 20.0);
}

TEST(Statistics, CountsAreAllArrangements) {
  const std::vector<double> counts = mann_whitney_counts(8, 8);
  EXPECT_EQ(counts.size(), 65u);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), 12870);  // 16 over 8
  EXPECT_EQ(mann_whitney_counts(2, 2), (std::vector<double>{1, 1, 2, 1, 1}));
}

TEST(Statistics, RatioIntervalSaysWhatItIs) {
  const std::vector<double> ten{10, 11, 12, 13, 14}, five{5, 5.5, 6, 6.5, 7};
  const Interval five_each = ratio_interval(ten, five);
  EXPECT_EQ(five_each.label, "95 %");
  EXPECT_NEAR(five_each.value, 2, 1e-12);
  // Exact inversion at 5 against 5 cuts two values at each end of the 25 quotients: the third smallest is 11 / 7.
  EXPECT_NEAR(five_each.lo, 11.0 / 7, 1e-12);
  EXPECT_NEAR(five_each.hi, 14 / 5.5, 1e-12);

  const Interval three_each = ratio_interval(from(10, 3), from(5, 3));
  EXPECT_EQ(three_each.label, "min-max");
  EXPECT_FALSE(three_each.confident());
  EXPECT_NEAR(three_each.lo, 10 / 7.0, 1e-12);
  EXPECT_NEAR(three_each.hi, 12 / 5.0, 1e-12);
}

TEST(Statistics, MedianIntervalNeedsSixValues) {
  EXPECT_EQ(median_interval(from(1, 5)).label, "min-max");
  const Interval six = median_interval(from(1, 6));
  EXPECT_EQ(six.label, "95 %");
  EXPECT_EQ(six.lo, 1);
  EXPECT_EQ(six.hi, 6);
  const Interval nine = median_interval(from(1, 9));  // tables: second to eighth
  EXPECT_EQ(nine.lo, 2);
  EXPECT_EQ(nine.value, 5);
  EXPECT_EQ(nine.hi, 8);
}

// bench_all allows 1000 repetitions, and a file may have more. The exact distribution would take 8 GB for 1000 against
// 1000, and its binomial coefficients overflow from 1030 values on.
TEST(Statistics, LargeSamplesHaveIntervalsToo) {
  const Interval many = median_interval(from(1, 2001));
  EXPECT_EQ(many.value, 1001);
  EXPECT_NEAR(many.lo, 1001 - 1.96 * 0.5 * std::sqrt(2001), 1);  // the normal approximation of the binomial
  EXPECT_NEAR(many.hi, 1001 + 1.96 * 0.5 * std::sqrt(2001), 1);
  const Interval exact = median_interval(from(1, 400)), near = median_interval(from(1, 401));
  EXPECT_NEAR(exact.lo, near.lo, 2);

  std::vector<double> twice = from(1000, 1000);
  for (double& v : twice) v *= 2;
  const Interval ratio = ratio_interval(twice, from(1000, 1000));
  EXPECT_NEAR(ratio.value, 2, 1e-3);
  EXPECT_TRUE(ratio.confident());
  EXPECT_NEAR(std::log(ratio.lo / 2), -std::log(ratio.hi / 2), 1e-3);
  const Interval hundred = ratio_interval(from(1000, 100), from(500, 100)),
                 more = ratio_interval(from(1000, 100), from(500, 101));
  EXPECT_NEAR(hundred.lo, more.lo, 0.01);
  EXPECT_NEAR(hundred.hi, more.hi, 0.01);
}

// All quotients of 20,000 against 20,000 would take 3.2 GB.
TEST(Statistics, RatiosOfLargeSamplesTakeLittleMemory) {
  std::vector<double> a, b;
  for (int i = 0; i < 20'000; ++i) {  // in no order, with equal values among them
    a.push_back(3 + (i * 7919 % 20'000 / 3) * 1e-4);
    b.push_back(1 + (i * 104'729 % 20'000 / 2) * 1e-5);
  }
  const auto peak_kib = [] {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
  };
  const long before = peak_kib();
  const Interval ratio = ratio_interval(a, b);
  EXPECT_LT(peak_kib() - before, 200'000);
  EXPECT_TRUE(ratio.confident());
  EXPECT_NEAR(ratio.value, (3 + 0.333) / (1 + 0.05), 1e-3);  // both are uniform: the quotient of the middles
  EXPECT_LT(ratio.hi / ratio.lo, 1.01);
  EXPECT_LT(ratio.lo, ratio.value);
  EXPECT_GT(ratio.hi, ratio.value);
}

// The value and the ends are those of the sorted quotients.
TEST(Statistics, RatiosAreSelectedAmongAllQuotients) {
  std::vector<double> a, b, all;
  for (int i = 0; i < 30; ++i) a.push_back(1 + (i * 17 % 30 / 4) * 0.125);
  for (int i = 0; i < 21; ++i) b.push_back(0.5 + (i * 8 % 21 / 2) * 0.0625);
  for (const double x : a)
    for (const double y : b) all.push_back(x / y);
  std::sort(all.begin(), all.end());
  const Interval ratio = ratio_interval(a, b);
  EXPECT_NEAR(ratio.value, median(all), 1e-12);
  for (const double end : {ratio.lo, ratio.hi}) {
    const auto near = [&](double quotient) { return std::abs(quotient - end) < 1e-12; };
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), near)) << end;
  }
  const auto below = std::count_if(all.begin(), all.end(), [&](double q) { return q < ratio.lo - 1e-12; });
  const auto above = std::count_if(all.begin(), all.end(), [&](double q) { return q > ratio.hi + 1e-12; });
  // 1.96 deviations of the statistic from its mean of 315 are 102; equal quotients are counted with their neighbours.
  EXPECT_NEAR(static_cast<double>(below), 315 - 102, 20);
  EXPECT_NEAR(static_cast<double>(above), 315 - 102, 20);
}

TEST(Statistics, GeometricMean) { EXPECT_NEAR(geometric_mean(std::vector<double>{0.5, 2, 8}), 2, 1e-12); }

// The worked example of the prototype, and that of Benjamini and Hochberg 1995, section 3.1: at q = 0.05 four of the
// fifteen p values are rejected.
TEST(Statistics, BenjaminiHochberg) {
  EXPECT_EQ(benjamini_hochberg(std::vector{0.01, 0.02, 0.03, 0.5}), (std::vector{0.04, 0.04, 0.04, 0.5}));
  const std::vector<double> published{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                                      0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000};
  const std::vector<double> q = benjamini_hochberg(published);
  EXPECT_EQ(std::count_if(q.begin(), q.end(), [](double v) { return v <= 0.05; }), 4);
  EXPECT_NEAR(q[3], 0.0095 * 15 / 4, 1e-12);
  std::vector<double> reversed(published.rbegin(), published.rend());
  EXPECT_EQ(benjamini_hochberg(reversed).back(), q.front());
  EXPECT_TRUE(benjamini_hochberg({}).empty());
}

// Beyond the exact counts the normal approximation takes over, without a step.
TEST(Statistics, LargeSamplesHaveAnApproximateP) {
  std::vector<double> x, y;
  for (int i = 0; i < 101; ++i) {
    x.push_back(i);
    y.push_back(i + 12.25);
  }
  const double large = mann_whitney_p(x, y);
  x.pop_back();
  y.pop_back();
  EXPECT_NEAR(mann_whitney_p(x, y), large, 0.1 * large);
  EXPECT_LT(large, 0.05);
}

}  // namespace
}  // namespace duet::results
