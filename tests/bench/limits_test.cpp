// SPDX-License-Identifier: Apache-2.0
// How long work may take until it counts as hung: before its calibration by its operations and bytes, then by that.
#include <gtest/gtest.h>

#include "bench/worker.h"

namespace duet::bench {
namespace {

TEST(Limits, GrowWithTheWorkBeforeCalibration) {
  const double nothing_s = uncalibrated_limit_s(0, 0);
  EXPECT_GE(nothing_s, 60) << "libraries that load, a busy machine";
  EXPECT_LE(nothing_s, 1800);
  // One thread of a slow CPU: a billion operations a second, a gigabyte a second.
  EXPECT_GE(uncalibrated_limit_s(1e12, 0), nothing_s + 1000);
  EXPECT_GE(uncalibrated_limit_s(0, 1e12), nothing_s + 1000);
}

TEST(Limits, AreManyCalibrations) {
  EXPECT_GE(calibrated_limit_s(0), 10) << "a short job, while other work runs";
  EXPECT_LE(calibrated_limit_s(0.001), 120) << "no hang of a short job lasts minutes";
  EXPECT_GE(calibrated_limit_s(30), 10 * 30);
  EXPECT_LT(calibrated_limit_s(30), calibrated_limit_s(60));
}

}  // namespace
}  // namespace duet::bench
