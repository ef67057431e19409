// SPDX-License-Identifier: Apache-2.0
// Packing of stored matrices (Matrix in engine.h) into strips: where lines are adjacent, rows are copied; where k is,
// they are transposed in registers. Halves become f32 on the way. engine.cpp calls this for one strip at a time and
// divides the strips among threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/engine_pack.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>  // Prefetch

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: load_as_f32, store, widen, for_float

using D = hn::ScalableTag<float>;
constexpr D d;
constexpr int64_t kLanes = hn::MaxLanes(d);

// The packed strip: value p of line i goes to to[p * height + i]; lines from `lines` on are 0.
struct Strip {
  int64_t lines, height, kc;
  float* to;
};

// Stores lines i, i + 1, ... of value p. Masked stores are slow. So in a strip no wider than a vector, the whole vector
// is stored; what that writes beyond the strip is overwritten by value p + 1, which comes next.
HWY_INLINE void store_vector(const Strip& s, hn::Vec<D> v, int64_t p, int64_t i) {
  const int64_t at = p * s.height + i;
  if (s.height <= kLanes && at + kLanes <= s.kc * s.height)
    hn::StoreU(v, d, s.to + at);
  else
    store(d, v, s.to + at, s.height - i);
}

// Copies rows: the lines of one k are adjacent, and the next k is `step` elements further. kVectors: vectors of a full
// strip; 0 for strips that are not full.
template <class T, int kVectors>
void copy(const Strip& s, const T* from, int64_t step) {
  constexpr int64_t kCacheLine = 64 / sizeof(T);
  for (int64_t p = 0; p < s.kc; ++p, from += step) {
    if constexpr (kVectors > 0) {
      for (int64_t i = 0; i < kVectors * kLanes; i += kLanes)
        hn::StoreU(load_as_f32(d, from + i), d, s.to + p * s.height + i);
    } else {
      for (int64_t i = 0; i < s.height; i += kLanes) {
        const int64_t left = std::max<int64_t>(0, s.lines - i);
        // A whole vector may be loaded where the matrix continues beyond the lines of this k. The values of lines that
        // are not in the strip become 0.
        const bool whole = p + 1 < s.kc && i + kLanes <= step + s.lines;
        const auto exists = hn::FirstN(d, static_cast<size_t>(std::min(left, kLanes)));
        store_vector(s, whole ? hn::IfThenElseZero(exists, load_as_f32(d, from + i)) : load_as_f32(d, from + i, left),
                     p, i);
      }
    }
    // The strip beside this one is packed next. No hardware prefetcher sees that from a column of short rows.
    for (int64_t i = 0; i < s.height; i += kCacheLine) hwy::Prefetch(from + s.height + i);
  }
}

// Value by value, from first_k on.
template <class T>
void transpose_slowly(const Strip& s, const void* const* line, int64_t first_k) {
  for (int64_t p = first_k; p < s.kc; ++p)
    for (int64_t i = 0; i < s.height; ++i) {
      T value{};  // by memcpy, because lines of pairs may be aligned to 2 bytes only
      if (i < s.lines) std::memcpy(&value, static_cast<const char*>(line[i]) + p * int64_t{sizeof(T)}, sizeof(T));
      s.to[p * s.height + i] = static_cast<float>(value);
    }
}

// As copy, for pairs of bf16. Each k of the strip combines two rows of the matrix; where k is odd the last pair has one
// row.
void copy_pairs(const uint16_t* from, int64_t step, int64_t lines, int64_t height, int64_t k, float* to) {
  const hn::Rebind<uint16_t, D> d16;
  const Strip s{lines, height, ceil_div(k, 2), to};
  for (int64_t p = 0; p < s.kc; ++p, from += 2 * step)
    for (int64_t i = 0; i < height; i += kLanes) {
      const int64_t left = std::max<int64_t>(0, lines - i);
      const auto low = load(d16, from + i, left, uint16_t{0});
      const auto high = 2 * p + 1 < k ? load(d16, from + step + i, left, uint16_t{0}) : hn::Zero(d16);
      store_vector(s, hn::BitCast(d, join_pairs(d, low, high)), p, i);
      hwy::Prefetch(from + height + i);
      hwy::Prefetch(from + step + height + i);
    }
}

#if HWY_TARGET != HWY_SCALAR
// Loads four values at p from each of line[0], line[4], line[8], ..., each to one block of four lanes.
template <class DT, class T>
HWY_INLINE hn::Vec<DT> load_blocks(DT dt, const T* const* line, int64_t p) {
  if constexpr (hn::MaxLanes(DT()) == 4) {
    return hn::LoadU(dt, bits_of(*line + p));
  } else {
    const hn::Half<DT> half;
    return hn::Combine(dt, load_blocks(half, line + hn::MaxLanes(half), p), load_blocks(half, line, p));
  }
}

// kLanes lines and four k at a time: 4 x 4 transposes in every 128-bit block of the vectors at once leave one k in each
// vector.
template <class T>
void transpose(const Strip& s, const void* const* lines) {
  const hn::Rebind<Bits<T>, D> dt;
  const hn::RepartitionToWide<hn::RebindToUnsigned<D>> d64;
  const int64_t whole = s.kc / 4 * 4;
  for (int64_t i = 0; i < s.height; i += kLanes) {
    const auto exists = hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(s.lines - i, 0, kLanes)));
    const T* line[kLanes];  // lines that do not exist repeat the last one
    for (int64_t q = 0; q < kLanes; ++q) line[q] = static_cast<const T*>(lines[std::min(i + q, s.lines - 1)]);
    for (int64_t p = 0; p < whole; p += 4) {
      // Load and widen.
      hn::Vec<D> v[4];
      for (int64_t q = 0; q < 4; ++q) {
        const auto raw = load_blocks(dt, line + q, p);
        if constexpr (is_half<T>)
          v[q] = widen<T>(d, raw);
        else
          v[q] = raw;
      }
      // Transpose and store.
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, v[0], v[1])),
                 low23 = hn::BitCast(d64, hn::InterleaveLower(d, v[2], v[3])),
                 high01 = hn::BitCast(d64, hn::InterleaveUpper(d, v[0], v[1])),
                 high23 = hn::BitCast(d64, hn::InterleaveUpper(d, v[2], v[3]));
      const auto store_k = [&](int64_t q, auto k) {
        store_vector(s, hn::IfThenElseZero(exists, hn::BitCast(d, k)), p + q, i);
      };
      store_k(0, hn::InterleaveLower(d64, low01, low23));
      store_k(1, hn::InterleaveUpper(d64, low01, low23));
      store_k(2, hn::InterleaveLower(d64, high01, high23));
      store_k(3, hn::InterleaveUpper(d64, high01, high23));
    }
  }
  transpose_slowly<T>(s, lines, whole);
}
#else
template <class T>
void transpose(const Strip& s, const void* const* lines) {
  transpose_slowly<T>(s, lines, 0);
}
#endif

void pack_apart(const void* const* line, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to) {
  for_float(dtype, [&]<class T>() { transpose<T>({lines, height, kc, to}, line); });
}
void pack_adjacent(const void* from, int64_t step, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to) {
  for_float(dtype, [&]<class T>() {
    const auto* first = static_cast<const T*>(from);
    if (lines == height && height == 2 * kLanes) return copy<T, 2>({lines, height, kc, to}, first, step);
    copy<T, 0>({lines, height, kc, to}, first, step);
  });
}

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::engine {
namespace {
HWY_EXPORT(pack_apart);
HWY_EXPORT(pack_adjacent);
HWY_EXPORT(copy_pairs);
}  // namespace

void pack_lines(const void* const* line, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to) {
  HWY_DYNAMIC_DISPATCH(pack_apart)(line, dtype, lines, height, kc, to);
}

Matrix::Matrix(const void* data, DType type, int64_t line, int64_t k) {
  stored = data;
  dtype = type;
  line_step = line;
  k_step = k;
}

void Matrix::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  const int64_t size = size_of(dtype);
  const auto* from = static_cast<const char*>(stored) + (line0 * line_step + k0 * k_step) * size;
  if (line_step == 1) return HWY_DYNAMIC_DISPATCH(pack_adjacent)(from, k_step, dtype, lines, height, k1 - k0, to);
  const void* line[kMaxHeight];
  for (int64_t i = 0; i < lines; ++i) line[i] = from + i * line_step * size;
  pack_lines(line, dtype, lines, height, k1 - k0, to);
}

void Operand::pack_pairs(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float*) const {
  throw Error("this operand has no pairs");
}

void Matrix::pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                        float* to) const {
  const auto* from = static_cast<const uint16_t*>(stored) + line0 * line_step + 2 * k0 * k_step;
  if (line_step == 1)
    return HWY_DYNAMIC_DISPATCH(copy_pairs)(from, k_step, lines, height, std::min(k, 2 * k1) - 2 * k0, to);
  // Along k a pair is four adjacent bytes, which are packed as an f32 is. If k is odd, the last pair is only half of
  // one.
  const bool odd = 2 * k1 > k;
  const int64_t whole = k1 - k0 - (odd ? 1 : 0);
  const void* line[kMaxHeight];
  for (int64_t i = 0; i < lines; ++i) line[i] = from + i * line_step;
  pack_lines(line, DType::f32, lines, height, whole, to);
  if (!odd) return;
  for (int64_t i = 0; i < height; ++i) {
    const uint32_t pair = i < lines ? from[i * line_step + 2 * whole] : 0;
    to[whole * height + i] = std::bit_cast<float>(pair);
  }
}

}  // namespace duet::engine
#endif
