// SPDX-License-Identifier: Apache-2.0
// Runs that implementations of libraries refuse (core/alignment.h).
#include "core/alignment.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

TEST(Alignment, AddressesThatAreNoMultipleAreRefused) {
  alignas(16) char memory[32];
  EXPECT_EQ(aligned_data({memory + 16, DType::f16, Role::in}, 16), memory + 16);
  EXPECT_THROW(aligned_data({memory + 2, DType::f16, Role::in}, 16), Misaligned);
  EXPECT_EQ(aligned_data({memory + 2, DType::f16, Role::in}, 2), memory + 2);
  EXPECT_EQ(aligned_data({}, 16), nullptr);  // of a tensor without elements
}

TEST(Alignment, AnOutputInTheMemoryOfAnInputIsRefused) {
  float x[4], dx[4];
  const Tensor input{x, DType::f32, Role::in};
  EXPECT_NO_THROW(require_apart({dx, DType::f32, Role::out}, input, "dx is x"));
  EXPECT_THROW(require_apart({x, DType::f32, Role::out}, input, "dx is x"), Aliased);
  EXPECT_NO_THROW(require_apart({}, {}, "dx is x"));
}

}  // namespace
}  // namespace duet
