// SPDX-License-Identifier: Apache-2.0
#include "cpu_ref/product_sum.h"

#include <gtest/gtest.h>

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

// Two sequences of tokens whose terms cancel: the partial sums reach 256 where the root of the squares is 22.6.
TEST(ProductSum, TermsOfOneSignInARowHaveTheSizeOfPartialSums) {
  const ProductSum s = sum_of(512, [](int64_t i) { return i < 256 ? 1.0 : -1.0; });
  EXPECT_EQ(s.sum(), 0);
  EXPECT_NEAR(s.root_sum(), 256 / std::sqrt(3.0) / kDirect, 1);
  EXPECT_GT(s.root_sum(), 5 * std::sqrt(512));
}

}  // namespace
}  // namespace duet
