// SPDX-License-Identifier: Apache-2.0
// Pairs of bf16 hold what the same operand gives as f32. The engine asks for pairs only where the CPU multiplies them
// faster; here they are packed on any.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include "cpu_ref/conv/pixels.h"
#include "ops/conv/conv2d.h"

namespace duet::engine {
namespace {

std::vector<bf16> drawn(int64_t count) {
  std::vector<bf16> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = bf16(static_cast<float>(1 + i * 37 % 251));
  return values;
}

// Packs pairs [k0, k1) of `lines` lines from line0 on, of k values each, and compares them with those values.
void expect_same(const Operand& operand, int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1,
                 int64_t k) {
  const int64_t pairs = k1 - k0, end = std::min(k, 2 * k1);
  std::vector<float> one(static_cast<size_t>((end - 2 * k0) * height), -1),
      two(static_cast<size_t>(pairs * height), -1);
  operand.pack(line0, lines, height, 2 * k0, end, one.data());
  operand.pack_pairs(line0, lines, height, k0, k1, k, two.data());
  for (int64_t p = 0; p < pairs; ++p)
    for (int64_t i = 0; i < height; ++i) {
      const auto pair = std::bit_cast<uint32_t>(two[static_cast<size_t>(p * height + i)]);
      const auto value = [&](int64_t q) { return 2 * k0 + q < end ? one[static_cast<size_t>(q * height + i)] : 0.0f; };
      ASSERT_EQ(std::bit_cast<float>(pair << 16), value(2 * p)) << "pair " << p << ", line " << i;
      ASSERT_EQ(std::bit_cast<float>(pair & 0xffff0000), value(2 * p + 1)) << "pair " << p << ", line " << i;
    }
}

TEST(Pairs, HoldWhatAnOperandGivesAsF32) {
  for (const int64_t groups : {1, 2})
    for (const int64_t stride : {1, 2}) {
      Conv2d p{.n = 3, .c = 12, .h = 5, .w = 7, .k = 8, .r = 3, .s = 3};
      p.pad_h = p.pad_w = 1;
      p.stride_h = p.stride_w = stride;
      p.groups = groups;
      p.layout = Layout::nhwc;
      p.dtype = DType::bf16;
      const std::vector<bf16> x = drawn(p.n * p.h * p.w * p.c), filter = drawn(p.k * p.group_c() * p.r * p.s);
      const Gather gather = Gather::forward(p);
      const int64_t lines = p.n * p.ho() * p.wo(), terms = gather.k();  // lines: pixels of y
      // Strips that are full and not, from the beginning and from within a tap.
      for (const auto& [line0, count, height] : {std::array<int64_t, 3>{0, 14, 14}, {lines - 5, 5, 14}})
        for (const int64_t k0 : {int64_t{0}, terms / 4 + 1})
          expect_same(Pixels(gather, x.data()), line0, count, height, k0, terms / 2, terms);
      for (const auto& [line0, count, height] : {std::array<int64_t, 3>{0, 32, 32}, {terms - 7, 7, 32}})
        for (const int64_t k0 : {int64_t{0}, lines / 4})
          expect_same(Inputs(gather, x.data()), line0, count, height, k0, (lines + 1) / 2, lines);
      std::vector<int64_t> taps(static_cast<size_t>(p.r * p.s));
      std::iota(taps.begin(), taps.end(), 0);
      std::swap(taps[1], taps[5]);
      const int64_t values = p.group_k() * p.r * p.s;
      for (const int64_t k0 : {int64_t{0}, values / 4})
        expect_same(TransposedFilter(p, taps, filter.data()), 1, p.group_c() - 1, 32, k0, values / 2, values);
    }
}

}  // namespace
}  // namespace duet::engine
