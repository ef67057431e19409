// SPDX-License-Identifier: Apache-2.0
// How long bench waits for CPUs that another guest slows, by a clock that is the test's.
#include "bench/cpu_speed.h"

#include <gtest/gtest.h>

#include <limits>

namespace duet::bench {
namespace {

constexpr double kSample_s = 50e-6;

struct CpuSpeedTest : testing::Test {
  double now_s = 100, shortest_s = 0, slow_until_s = 0;
  int samples = 0;
  CpuSpeed speed{[this] {
                   const double took_s = now_s < slow_until_s ? 2 * kSample_s : kSample_s;
                   now_s += took_s;
                   ++samples;
                   return took_s;
                 },
                 [this] { return now_s; }, shortest_s};
  double waited() {
    const double start_s = now_s;
    speed.wait();
    return now_s - start_s;
  }
};

TEST_F(CpuSpeedTest, WaitsUntilASlowStateIsOver) {
  EXPECT_NEAR(waited(), kSample_s, 1e-9) << "one sample shows it";
  slow_until_s = now_s + 0.1;
  EXPECT_NEAR(waited(), 0.1, 3 * kSample_s);
  EXPECT_DOUBLE_EQ(shortest_s, kSample_s);
}

TEST_F(CpuSpeedTest, KnowsTheShortestSampleOfThoseBefore) {
  shortest_s = kSample_s;
  slow_until_s = now_s + 0.1;
  EXPECT_NEAR(waited(), 0.1, 3 * kSample_s) << "the first sample of this object is a slow one";
}

TEST_F(CpuSpeedTest, WaitsLittleBesideANeighbourThatStays) {
  shortest_s = kSample_s;
  slow_until_s = 1e9;
  EXPECT_NEAR(waited(), 0.3, 3 * kSample_s);
  double all_s = 0.3;
  for (int i = 0; i < 100; ++i) all_s += waited();
  EXPECT_GT(all_s, 3);
  EXPECT_LT(all_s, 3.2) << "3 s, and 3 % of these";
  samples = 0;
  waited();
  EXPECT_LE(samples, 2);
  now_s += 60;
  EXPECT_NEAR(waited(), 0.3, 3 * kSample_s) << "a share of the time allows more";
}

TEST_F(CpuSpeedTest, ASampleWithoutAllThreadsSaysNothing) {
  const double none_s = std::numeric_limits<double>::infinity();
  double taken = 0, shortest = 0;
  CpuSpeed alone([&] { return ++taken < 10 ? none_s : kSample_s; }, [&] { return taken * 1e-3; }, shortest);
  alone.wait();
  EXPECT_EQ(taken, 10) << "until all were there";
  EXPECT_EQ(shortest, kSample_s);
}

}  // namespace
}  // namespace duet::bench
