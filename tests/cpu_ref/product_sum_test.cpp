// SPDX-License-Identifier: Apache-2.0
#include "cpu_ref/product_sum.h"

#include <gtest/gtest.h>

#include "ops/gemm/product.h"

namespace duet {
namespace {

ProductSum sum_of(int64_t n, auto&& term) {
  ProductSum s;
  for (int64_t i = 0; i < n; ++i) s.add(term(i));
  return s;
}

TEST(ProductSum, TermsWithoutOrderHaveTheRootOfTheirSquares) {
  const ProductSum alternating = sum_of(512, [](int64_t i) { return i % 2 == 0 ? 0.5 : -0.5; });
  EXPECT_DOUBLE_EQ(alternating.root_sum(), std::sqrt(512 * 0.25));
  const ProductSum alike = sum_of(512, [](int64_t) { return 1.0; });  // its partial sums are below |sum|
  EXPECT_DOUBLE_EQ(alike.root_sum(), std::sqrt(512));
  EXPECT_EQ(sum_of(0, [](int64_t) { return 1.0; }).root_sum(), 0);
}

// A reference that looks at its terms claims for equal ones what Terms::may_be_alike allows, and no more.
TEST(ProductSum, EqualTermsHaveTheWiderBound) {
  constexpr double kCount = 100000, kRoot = 316.22776601683796;
  EXPECT_TRUE(are_alike(kCount, kCount, kRoot));
  EXPECT_FALSE(are_alike(kCount, 0.98 * kCount, kRoot)) << "a spread of 20 %";
  for (const auto& [dtype, math] :
       {std::pair{DType::f32, Math::ieee}, {DType::f32, Math::tf32}, {DType::bf16, Math::ieee}}) {
    const Tolerance wide = product_sum_tolerance(kCount, 0, dtype, math);
    const Tolerance narrow = product_sum_tolerance(kCount, 0, dtype, math, kTransformed, Terms::vary);
    const double claimed = root_sum_of_alike(kCount, kCount, kRoot, dtype, math);
    const double bound = wide.rel * kCount + wide.abs_sum * kRoot;
    EXPECT_NEAR(narrow.rel * kCount + narrow.abs_sum * claimed, bound, 1e-9 * bound);
    EXPECT_GT(bound, 1.05 * (narrow.rel * kCount + narrow.abs_sum * kRoot));
  }
}

// Two sequences of tokens whose terms cancel: the partial sums reach 256 where the root of the squares is 22.6.
TEST(ProductSum, TermsOfOneSignInARowHaveTheSizeOfPartialSums) {
  const ProductSum s = sum_of(512, [](int64_t i) { return i < 256 ? 1.0 : -1.0; });
  EXPECT_EQ(s.sum(), 0);
  EXPECT_NEAR(s.root_sum(), 256 / std::sqrt(3.0) / kDirect, 1);
  EXPECT_GT(s.root_sum(), 5 * std::sqrt(512));
}

}  // namespace
}  // namespace duet
