// SPDX-License-Identifier: Apache-2.0
// f8e4m3 as bf16 (cpu_ref/gemm/float8.h): each of its 256 values, on each instruction set.
#include "cpu_ref/gemm/float8.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <cmath>
#include <vector>

namespace duet {
namespace {

TEST(Float8, EveryValueIsTheSameInBf16) {
  constexpr int64_t kCount = 3 * 256 + 7;  // the last ones are no whole vector
  std::vector<f8e4m3> from(kCount);
  for (size_t i = 0; i < from.size(); ++i) from[i].bits = static_cast<uint8_t>(i * 5);
  CpuContext cpu(1);
  int64_t sets = 0;
  for (int64_t targets = simd_targets(); targets != 0; targets &= targets - 1, ++sets) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    std::vector<bf16> to(from.size(), bf16(7.0f));
    widen_to_bf16(from.data(), kCount, to.data(), cpu);
    for (size_t i = 0; i < from.size(); ++i) {
      const auto want = static_cast<float>(from[i]), got = static_cast<float>(to[i]);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : bf16(want).bits == to[i].bits)
          << "instruction set " << sets << ", bits " << int{from[i].bits} << ": " << got << ", not " << want;
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GT(sets, 0);
}

}  // namespace
}  // namespace duet
