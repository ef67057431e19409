// SPDX-License-Identifier: Apache-2.0
// top_k: a heap holds the k largest of what has been read, and vectors compare each element with its smallest, so that
// most elements cost one comparison. A first pass finds a number that k elements reach, so that few others enter the
// heap. Elements stand in the heap as keys, whole numbers in the order of ranking.h.
// Threads share rows and blocks of long rows (sum_blocks.h), whose keys are merged afterwards.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/reduction/top_k_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cmath>
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

// A number that at least k of n elements reach: the k-th of the largest elements of disjoint subsets, one for each lane
// of 4 vectors, or of 1 where k is small. -inf where there are too few of them, or a NaN.
template <class T>
HWY_INLINE float reached_by(const T* x, int64_t n, int64_t k) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (k > 4 * lanes || n < 16 * lanes) return -INFINITY;
  auto m0 = load_as_f32(d, x), m1 = load_as_f32(d, x + lanes), m2 = load_as_f32(d, x + 2 * lanes);
  auto m3 = load_as_f32(d, x + 3 * lanes);
  // NaN is neither below nor above, so that a sum of comparisons finds it.
  auto is_number = hn::And(hn::And(hn::Eq(m0, m0), hn::Eq(m1, m1)), hn::And(hn::Eq(m2, m2), hn::Eq(m3, m3)));
  for (int64_t i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = load_as_f32(d, x + i), v1 = load_as_f32(d, x + i + lanes);
    const auto v2 = load_as_f32(d, x + i + 2 * lanes), v3 = load_as_f32(d, x + i + 3 * lanes);
    is_number =
        hn::And(is_number, hn::And(hn::And(hn::Eq(v0, v0), hn::Eq(v1, v1)), hn::And(hn::Eq(v2, v2), hn::Eq(v3, v3))));
    m0 = hn::Max(m0, v0);
    m1 = hn::Max(m1, v1);
    m2 = hn::Max(m2, v2);
    m3 = hn::Max(m3, v3);
  }
  if (!hn::AllTrue(d, is_number)) return -INFINITY;
  HWY_ALIGN float largest[4 * hn::MaxLanes(d)];
  int64_t subsets = lanes;
  if (k <= lanes) {
    hn::Store(hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)), d, largest);
  } else {
    subsets = 4 * lanes;
    hn::Store(m0, d, largest);
    hn::Store(m1, d, largest + lanes);
    hn::Store(m2, d, largest + 2 * lanes);
    hn::Store(m3, d, largest + 3 * lanes);
  }
  std::nth_element(largest, largest + k - 1, largest + subsets, std::greater<>());
  return largest[k - 1];
}

// A key takes the place of the smallest in a heap, where it is larger.
HWY_INLINE void replace_smallest(uint64_t* heap, int64_t kept, uint64_t key) {
  if (key <= heap[0]) return;
  std::pop_heap(heap, heap + kept, std::greater<>());
  heap[kept - 1] = key;
  std::push_heap(heap, heap + kept, std::greater<>());
}

// Calls use(e, value) for the elements of x[i .. n) that are not at most `least`, in order; e: their places. The number
// `least` is a vector, asked for again where elements were found. Stops after a group of elements where done().
// Returns the place of the first element that was not looked at.
template <class T, class Least, class Use, class Done>
HWY_INLINE int64_t for_larger(const T* x, int64_t i, int64_t n, Least&& least_of, Use&& use, Done&& done) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float values[hn::MaxLanes(d)];
  auto least = least_of();
  const auto is_larger = [&](auto v) HWY_ATTR { return hn::Not(hn::Le(v, least)); };
  const auto look_at = [&](auto v, int64_t at, int64_t elements) HWY_ATTR {
    uint8_t bytes[8] = {};  // a bit for each lane
    hn::StoreMaskBits(d, is_larger(v), bytes);
    uint64_t candidates = 0;
    std::memcpy(&candidates, bytes, sizeof bytes);
    if (candidates == 0) return;
    hn::Store(v, d, values);
    for (; candidates != 0; candidates &= candidates - 1) {
      const int64_t e = std::countr_zero(candidates);
      if (e >= elements) break;
      use(at + e, values[e]);
    }
    least = least_of();
  };
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = load_as_f32(d, x + i), v1 = load_as_f32(d, x + i + lanes);
    const auto v2 = load_as_f32(d, x + i + 2 * lanes), v3 = load_as_f32(d, x + i + 3 * lanes);
    if (HWY_LIKELY(hn::AllFalse(d, hn::Or(hn::Or(is_larger(v0), is_larger(v1)), hn::Or(is_larger(v2), is_larger(v3))))))
      continue;
    look_at(v0, i, lanes);
    look_at(v1, i + lanes, lanes);
    look_at(v2, i + 2 * lanes, lanes);
    look_at(v3, i + 3 * lanes, lanes);
    if (done()) return i + 4 * lanes;
  }
  for (; i < n; i += lanes) look_at(load_as_f32(d, x + i, n - i), i, std::min(lanes, n - i));
  return n;
}

// The largest of n elements, at most k, in a heap whose first key is the smallest. Returns how many they are. first:
// the column of x[0].
template <class T>
HWY_INLINE int64_t fill_heap(const T* x, int64_t n, int64_t first, int64_t k, uint64_t* heap) {
  constexpr int64_t kFirst = 2048;  // elements of the first pass, which then are read from L1
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t kept = std::min(n, k);
  int64_t i = 0;  // the next element
  const float reached = k == 1 ? -INFINITY : reached_by(x, std::min(n, kFirst), k);
  if (reached == -INFINITY) {
    for (; i < kept; ++i) heap[i] = rank_key(hn::GetLane(load_as_f32(one, x + i)), first + i);
    if (kept == n) return kept;
    std::make_heap(heap, heap + kept, std::greater<>());
  } else {
    // Until the heap is full: what is not below `reached`.
    int64_t count = 0;
    const auto below = hn::Set(d, std::nextafter(reached, -INFINITY));
    const auto add = [&](int64_t e, float value) HWY_ATTR {
      const uint64_t key = rank_key(value, first + e);
      if (count == kept) return replace_smallest(heap, kept, key);
      heap[count++] = key;
      if (count == kept) std::make_heap(heap, heap + kept, std::greater<>());
    };
    i = for_larger(
        x, 0, n, [&]() HWY_ATTR { return below; }, add, [&] { return count == kept; });
  }
  // Of equal elements the later one ranks below: only what is larger than the smallest in the heap, or NaN, gets in.
  for_larger(
      x, i, n, [&]() HWY_ATTR { return hn::Set(d, value_of_key(heap[0])); },
      [&](int64_t e, float value) HWY_ATTR { replace_smallest(heap, kept, rank_key(value, first + e)); },
      [] { return false; });
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
