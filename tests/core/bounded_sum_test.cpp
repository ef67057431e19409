// SPDX-License-Identifier: Apache-2.0
// The errors that BoundedSum allows, against those of sums in f32 in several orders: never more than half of it where
// many terms are added up, and not so little that wrong sums would pass.
#include "ops/bounded_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace duet {
namespace {

float chain(const std::vector<float>& terms) {
  float sum = 0;
  for (const float t : terms) sum += t;
  return sum;
}

// As vectors add up: `lanes` chains, then a tree.
float in_lanes(const std::vector<float>& terms, size_t lanes) {
  std::vector<float> sums(lanes, 0);
  for (size_t i = 0; i < terms.size(); ++i) sums[i % lanes] += terms[i];
  for (; sums.size() > 1; sums.resize(sums.size() / 2))
    for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] += sums[i + sums.size() / 2];
  return sums[0];
}

// The largest error of all orders and draws, as a share of what error() allows.
double largest_share(
    size_t n, int draws, const std::function<float(std::mt19937_64&)>& term,
    const std::function<void(BoundedSum&)>& prepare = [](BoundedSum&) {}) {
  std::mt19937_64 random(7);
  double largest = 0;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<float> terms(n);
    for (float& t : terms) t = term(random);
    BoundedSum sum;
    prepare(sum);
    for (const float t : terms) sum.add(t);
    const auto share = [&](float got) { return std::abs(got - sum.sum()) / (sum.error() * kF32Roundoff); };
    largest = std::max({largest, share(chain(terms)), share(in_lanes(terms, 8))});
    std::reverse(terms.begin(), terms.end());
    largest = std::max(largest, share(chain(terms)));
    std::shuffle(terms.begin(), terms.end(), random);
    largest = std::max(largest, share(chain(terms)));
  }
  return largest;
}

float in_bf16(float value) { return static_cast<float>(round_to(DType::bf16, value)); }

TEST(BoundedSum, FollowsTheErrorsOfSums) {
  const auto uniform = [](float low, float high) {
    return [=](std::mt19937_64& r) { return std::uniform_real_distribution<float>(low, high)(r); };
  };
  for (const auto& [low, high] : {std::pair{-1.0F, 1.0F}, std::pair{-0.5F, 1.5F}, std::pair{0.0F, 1.0F}})
    for (const size_t n : {32, 512, 2048}) {
      const double share = largest_share(n, 256, uniform(low, high));
      EXPECT_LE(share, 0.5) << n << " terms in " << low << " to " << high;
      EXPECT_GE(share, 1.0 / 8) << n << " terms in " << low << " to " << high;
    }
}

TEST(BoundedSum, AllowsForWhatRoundsAlike) {
  EXPECT_LE(largest_share(2048, 1, [](auto&) { return 0.7F; }), 1);
  const auto square = [](std::mt19937_64& r) {
    const float v = in_bf16(std::uniform_real_distribution<float>(-1, 1)(r));
    return v * v;
  };
  EXPECT_GT(largest_share(2048, 32, square), 1) << "the squares of bf16 have no bias: has_short_squares() is needless";
  EXPECT_LE(largest_share(2048, 32, square, [](BoundedSum& s) { s.has_short_squares(); }), 0.5);
}

TEST(BoundedSum, OfFewTermsIsTheWorstCase) {
  BoundedSum one, two, none, rounded;
  one.add(3);
  two.add(3);
  two.add(-1);
  rounded.add(3, 0.5);
  EXPECT_EQ(none.error(), 0);
  EXPECT_EQ(one.error(), 0);
  EXPECT_EQ(two.error(), 4);
  EXPECT_EQ(rounded.error(), 0.5);
}

// Behind a run the next one begins again, so its errors are those of shorter sums.
TEST(BoundedSum, OfRunsIsLessThanOfOneChain) {
  BoundedSum chain, runs(256);
  for (int i = 0; i < 8192; ++i) {
    chain.add(1 + i % 7 * 0.01);
    runs.add(1 + i % 7 * 0.01);
  }
  EXPECT_LT(runs.error(), chain.error() / 8);
  EXPECT_GT(runs.error(), std::abs(runs.sum()));
}

}  // namespace
}  // namespace duet
