// SPDX-License-Identifier: Apache-2.0
#include "core/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace duet {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(LargeMemory, IsKeptForTheNextRequestOfItsSize) {
  for (const size_t bytes : {kLargeBlock, size_t{70001}, size_t{3} << 20}) {
    void* const first = allocate_large(bytes);
    std::memset(first, 1, bytes);
    release_large(first, bytes);
    void* const other = allocate_large(2 * bytes);
    EXPECT_NE(other, first) << bytes;
    void* const again = allocate_large(bytes);
    EXPECT_EQ(again, first) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(again) % 4096, 0u);
    release_large(again, bytes);
    release_large(other, 2 * bytes);
  }
}
#endif

TEST(LargeMemory, IsWholeWhereManyBlocksAreReleased) {
  std::vector<HugeVector<uint32_t>> all(1200);
  for (size_t i = 0; i < all.size(); ++i) all[i].assign(20000, static_cast<uint32_t>(i));
  for (size_t i = 0; i < all.size(); ++i)
    for (const uint32_t value : all[i]) ASSERT_EQ(value, i);
  all.clear();
  HugeVector<uint32_t> last(20000);
  last.assign(20000, 7);
  EXPECT_EQ(last.back(), 7u);
}

}  // namespace
}  // namespace duet
