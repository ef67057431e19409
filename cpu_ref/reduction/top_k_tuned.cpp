// SPDX-License-Identifier: Apache-2.0
// top_k: a heap holds the k largest of what has been read, and vectors compare each element with its smallest, so that
// most elements cost one comparison. Elements stand in the heap as keys, whole numbers in the order of ranking.h.
// Threads share rows and blocks of long rows (sum_blocks.h), whose keys are merged afterwards.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/reduction/top_k_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "core/denormals.h"
#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/reduction/sum_blocks.h"
#include "ops/reduction/top_k.h"

#ifndef DUET_CPU_REF_TOP_K_KEY_
#define DUET_CPU_REF_TOP_K_KEY_
namespace duet {
// The larger key ranks above: bits of the value that are ordered as numbers, then the complement of the column.
inline constexpr uint32_t kNanRank = 0xffc00000u;  // of every NaN: above infinity
inline uint64_t rank_key(float v, int64_t column) {
  uint32_t bits = std::bit_cast<uint32_t>(v == 0 ? 0.0f : v);
  bits = v != v ? kNanRank : bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{bits} << 32 | static_cast<uint32_t>(~column);
}
inline float value_of_key(uint64_t key) {
  const auto bits = static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>(bits >> 31 != 0 ? bits & 0x7fffffffu : ~bits);
}
inline int64_t column_of_key(uint64_t key) { return static_cast<int64_t>(~static_cast<uint32_t>(key)); }
}  // namespace duet
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// The largest of n elements, at most k, in a heap whose first key is the smallest. Returns how many they are. first:
// the column of x[0].
template <class T>
HWY_INLINE int64_t fill_heap(const T* x, int64_t n, int64_t first, int64_t k, uint64_t* heap) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const hn::CappedTag<float, 1> one;
  const int64_t kept = std::min(n, k);
  for (int64_t i = 0; i < kept; ++i) heap[i] = rank_key(hn::GetLane(load_as_f32(one, x + i)), first + i);
  if (kept == n) return kept;
  const std::greater<> smallest_first;
  std::make_heap(heap, heap + kept, smallest_first);

  // Of equal elements the later one ranks below: only what is larger than the smallest in the heap, or NaN, gets in.
  auto least = hn::Set(d, value_of_key(heap[0]));
  HWY_ALIGN float values[hn::MaxLanes(d)];
  const auto gets_in = [&](auto v) HWY_ATTR { return hn::Not(hn::Le(v, least)); };
  const auto try_vector = [&](auto v, int64_t i, int64_t count) HWY_ATTR {
    uint8_t bytes[8] = {};  // a bit for each lane
    hn::StoreMaskBits(d, gets_in(v), bytes);
    uint64_t candidates = 0;
    std::memcpy(&candidates, bytes, sizeof bytes);
    if (candidates == 0) return;
    hn::Store(v, d, values);
    for (; candidates != 0; candidates &= candidates - 1) {
      const int64_t e = std::countr_zero(candidates);
      if (e >= count) break;
      const uint64_t key = rank_key(values[e], first + i + e);
      if (key <= heap[0]) continue;
      std::pop_heap(heap, heap + kept, smallest_first);
      heap[kept - 1] = key;
      std::push_heap(heap, heap + kept, smallest_first);
    }
    least = hn::Set(d, value_of_key(heap[0]));
  };
  int64_t i = kept;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = load_as_f32(d, x + i), v1 = load_as_f32(d, x + i + lanes);
    const auto v2 = load_as_f32(d, x + i + 2 * lanes), v3 = load_as_f32(d, x + i + 3 * lanes);
    if (HWY_LIKELY(hn::AllFalse(d, hn::Or(hn::Or(gets_in(v0), gets_in(v1)), hn::Or(gets_in(v2), gets_in(v3))))))
      continue;
    try_vector(v0, i, lanes);
    try_vector(v1, i + lanes, lanes);
    try_vector(v2, i + 2 * lanes, lanes);
    try_vector(v3, i + 3 * lanes, lanes);
  }
  for (; i < n; i += lanes) try_vector(load_as_f32(d, x + i, n - i), i, std::min(lanes, n - i));
  return kept;
}

// Blocks [first, last) of rows: the keys of part b % blocks of row b / blocks, `kept` of them at keys + b * kept; zeros
// where a block has fewer elements.
void top_k_blocks(const TopK& p, const void* from, int64_t length, int64_t kept, int64_t first, int64_t last,
                  uint64_t* keys) {
  const ScopedKeepDenormals keep;  // they rank by their values
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const int64_t blocks = ceil_div(p.cols, length);
    for (int64_t b = first; b < last; ++b) {
      const int64_t c = b % blocks * length;
      const T* x = static_cast<const T*>(from) + b / blocks * p.cols + c;
      const int64_t found = fill_heap(x, std::min(length, p.cols - c), c, kept, keys + b * kept);
      std::fill(keys + b * kept + found, keys + (b + 1) * kept, 0);
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(top_k_blocks);

Plan top_k_tuned(const TopK& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const int64_t length = std::max(kRowBlock, 8 * p.k);  // of a block, which leaves at most an eighth of it
  const int64_t blocks = ceil_div(p.cols, length), kept = p.k;
  const int64_t grain = kRowBlock / std::max<int64_t>(1, std::min(p.cols, kRowBlock));
  WorkspaceLayout workspace;
  const auto piece = workspace.add<uint64_t>(p.rows * blocks * kept);
  const auto run = [p, length, blocks, kept, grain, piece, &cpu](Args t) {
    uint64_t* keys = t.workspace(piece);
    const void* x = t[TopK::x].data;
    auto* value = static_cast<char*>(t[TopK::value].data);
    auto* index = t[TopK::index].as<int32_t>();
    const auto size = static_cast<size_t>(size_of(p.dtype));
    const auto blocks_of = [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(top_k_blocks)(p, x, length, kept, first, last, keys);
    };
    // The k largest keys of all blocks of a row, in order.
    const auto finish = [&](int64_t row) {
      uint64_t* mine = keys + row * blocks * kept;
      std::partial_sort(mine, mine + p.k, mine + blocks * kept, std::greater<>());
      for (int64_t i = 0; i < p.k; ++i) {
        const int64_t c = column_of_key(mine[i]);
        index[row * p.k + i] = static_cast<int32_t>(c);
        std::memcpy(value + static_cast<size_t>(row * p.k + i) * size,
                    static_cast<const char*>(x) + static_cast<size_t>(row * p.cols + c) * size, size);
      }
    };
    if (blocks == 1) {
      cpu.parallel_for(p.rows, grain, [&](int64_t first, int64_t last) {
        blocks_of(first, last);
        for (int64_t row = first; row < last; ++row) finish(row);
      });
    } else {
      cpu.parallel_for(p.rows * blocks, 1, blocks_of);
      cpu.parallel_for(p.rows, 1, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) finish(row);
      });
    }
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(top_k_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
