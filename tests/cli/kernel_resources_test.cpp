// SPDX-License-Identifier: Apache-2.0
// What `ptxas -v` prints of kernels, as the build embeds it for `duet kernel-profile`.
#include "cli/kernel_resources.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

constexpr const char* kText = R"(file rows_tuned.cu
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'void duet::cuda::(anonymous namespace)::rows_kernel<float, (int)32, (bool)1>)"
                              R"((float const*, long)' for 'sm_90a'
ptxas info    : Function properties for rows_kernel
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 132 bytes smem
file add_naive.cu
ptxas info    : Compiling entry function 'void duet::cuda::_GLOBAL__N__12_add_cu::add_kernel<duet::bf16>()' for 'sm_80'
ptxas info    : Function properties for add_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers
)";

TEST(KernelResources, EachKernelWithItsOwnNumbers) {
  const std::vector<KernelResources> all = parse_ptxas(kText);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].kernel, "rows_kernel<float, 32, 1>");
  EXPECT_EQ(all[0].file, "rows_tuned.cu");
  EXPECT_EQ(all[0].architecture, 90);
  EXPECT_EQ(all[0].registers, 40);
  EXPECT_EQ(all[0].stack_bytes, 16);
  EXPECT_EQ(all[0].spill_store_bytes, 8);
  EXPECT_EQ(all[0].spill_load_bytes, 4);
  EXPECT_EQ(all[0].static_shared_bytes, 132);
  EXPECT_EQ(all[1].kernel, "add_kernel<bf16>");
  EXPECT_EQ(all[1].file, "add_naive.cu");
  EXPECT_EQ(all[1].architecture, 80);
  EXPECT_EQ(all[1].registers, 12);
  EXPECT_EQ(all[1].static_shared_bytes, 0);
}

TEST(KernelResources, AnEmptyTextHasNoKernels) { EXPECT_TRUE(parse_ptxas("").empty()); }

}  // namespace
}  // namespace duet
