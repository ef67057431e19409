// SPDX-License-Identifier: Apache-2.0
// Compares Philox4x32-10 with the known answers of Random123 (kat_vectors) whose upper counter words are zero, and
// tests its properties.
#include "core/philox.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/elementwise/dropout.h"

namespace duet {
namespace {

TEST(Philox, KnownAnswer) {
  const Philox4 got = philox4x32_10(0, 0);
  const uint32_t want[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.v[i], want[i]) << i;
}

TEST(Philox, BitsAreTheLanesOfConsecutiveBlocks) {
  for (uint64_t index : {0u, 1u, 2u, 3u, 4u, 1031u})
    EXPECT_EQ(philox_bits(index, 42), philox4x32_10(index / 4, 42).v[index % 4]) << index;
}

TEST(Philox, EveryBitOfCounterAndKeyMatters) {
  std::set<uint32_t> seen{philox_bits(0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_TRUE(seen.insert(philox4x32_10(uint64_t{1} << bit, 0).v[0]).second) << "counter bit " << bit;
    EXPECT_TRUE(seen.insert(philox4x32_10(0, uint64_t{1} << bit).v[0]).second) << "key bit " << bit;
  }
}

TEST(Dropout, ThresholdKeepsTheRightShare) {
  EXPECT_EQ(dropout_threshold(0), 0u);
  EXPECT_EQ(dropout_threshold(0.5), uint64_t{1} << 31);
  EXPECT_EQ(dropout_threshold(1), uint64_t{1} << 32);  // above every 32-bit number: no element is kept
  int kept = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) kept += dropout_keeps(static_cast<uint64_t>(i), 1, dropout_threshold(0.2));
  EXPECT_NEAR(kept, 0.8 * n, 5 * 126.5);  // five deviations of a binomial: sqrt(n p (1 - p)) = 126.5
}

}  // namespace
}  // namespace duet
