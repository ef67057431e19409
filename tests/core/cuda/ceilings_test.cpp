// SPDX-License-Identifier: Apache-2.0
// Which architectures have a ceiling for tensor cores.
#include "core/cuda/ceilings.h"

#include <gtest/gtest.h>

namespace duet::cuda {
namespace {

TEST(Ceilings, NoTensorCeilingWhereTcgen05IsFasterThanWhatIsMeasured) {
  for (const int capability : {80, 86, 89, 90, 120, 121}) EXPECT_TRUE(has_tensor_ceiling(capability)) << capability;
  for (const int capability : {100, 101, 103, 110}) EXPECT_FALSE(has_tensor_ceiling(capability)) << capability;
}

}  // namespace
}  // namespace duet::cuda
