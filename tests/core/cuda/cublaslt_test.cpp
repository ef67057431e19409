// SPDX-License-Identifier: Apache-2.0
// What a heuristic of cuBLASLt may choose. The library's preferences need no GPU; its heuristics do.
#include <gtest/gtest.h>

#include "core/cuda/cublas.h"

namespace duet::cuda {
namespace {

template <class T>
T attribute(const LtPreference& preference, cublasLtMatmulPreferenceAttributes_t which) {
  T value{};
  size_t written = 0;
  EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(preference.get(), which, &value, sizeof value, &written),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, sizeof value);
  return value;
}

TEST(CublasLt, PartialSumsStayInTheComputeType) {
  const LtPreference preference = lt_preference(1 << 20, 16);
  const auto schemes = attribute<uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  EXPECT_TRUE(schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) << "k may be split";
  EXPECT_FALSE(schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) << "bf16 partial sums";
  EXPECT_FALSE(schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) << "partial sums in the output";
  EXPECT_EQ(attribute<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), uint64_t{1} << 20);
  EXPECT_EQ(attribute<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), 16u);
  EXPECT_EQ(attribute<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), 16u);
}

}  // namespace
}  // namespace duet::cuda
