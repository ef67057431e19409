// SPDX-License-Identifier: Apache-2.0
#include "results/job_name.h"

#include <gtest/gtest.h>

namespace duet::results {
namespace {

TEST(JobName, OpsOfOneWordAndOfTwo) {
  EXPECT_EQ(op_of("gemm/cpu.tuned/f32/m:1/n:1/k:1"), "gemm");
  EXPECT_EQ(op_of("step/mlp/cpu/f32/batch:32"), "step/mlp");
  EXPECT_EQ(op_of("study/launch/cpu.fork/f32/n:1"), "study/launch");
  EXPECT_EQ(op_of("study/launch"), "study/launch");
  EXPECT_EQ(op_of("relu"), "relu");
  EXPECT_EQ(op_of(""), "");
}

}  // namespace
}  // namespace duet::results
