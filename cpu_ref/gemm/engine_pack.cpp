// Packing of what is stored: rows are copied where lines are adjacent, or transposed in registers where k is; halves become
// f32 on the way.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/engine_pack.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>  // Prefetch

#include <algorithm>
#include <type_traits>

#include "core/simd-inl.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/engine_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using duet::HWY_NAMESPACE::store;

using D = hn::ScalableTag<float>;
constexpr D d;
constexpr int64_t kLanes = hn::MaxLanes(d);

template <DType kType>
using Stored = std::conditional_t<kType == DType::f32, float, std::conditional_t<kType == DType::bf16, bf16, f16>>;

struct Strip {  // where it goes
  int64_t lines, height, kc;
  float* to;
};

// One k of a strip no wider than a vector may spill into the next k, which is written after it; masked stores are slow.
HWY_INLINE void put(const Strip& s, hn::Vec<D> v, int64_t p, int64_t i) {
  const int64_t at = p * s.height + i;
  if (s.height <= kLanes && at + kLanes <= s.kc * s.height)
    hn::StoreU(v, d, s.to + at);
  else
    store(d, v, s.to + at, s.height - i);
}

// kVectors: of a full strip; 0 for others. The lines of one k are adjacent; `step` leads to the next k.
template <DType kType, int kVectors>
void copy(const Strip& s, const Stored<kType>* from, int64_t step) {
  constexpr int64_t kCacheLine = 64 / sizeof(Stored<kType>);
  for (int64_t p = 0; p < s.kc; ++p, from += step) {
    if constexpr (kVectors > 0) {
      for (int64_t i = 0; i < kVectors * kLanes; i += kLanes)
        hn::StoreU(load_as_f32(d, from, kType, i, kLanes), d, s.to + p * s.height + i);
    } else {
      for (int64_t i = 0; i < s.height; i += kLanes)
        put(s, load_as_f32(d, from, kType, i, std::max<int64_t>(0, s.lines - i)), p, i);
    }
    // The strip beside this one comes next; no hardware prefetcher sees that from a column of short rows.
    for (int64_t i = 0; i < s.height; i += kCacheLine) hwy::Prefetch(from + s.height + i);
  }
}
template <DType kType>
void copy(const Strip& s, const void* from, int64_t step) {
  const auto* first = static_cast<const Stored<kType>*>(from);
  if (s.lines == s.height && s.height == 2 * kLanes) return copy<kType, 2>(s, first, step);
  copy<kType, 0>(s, first, step);
}

template <DType kType>
void transpose_slowly(const Strip& s, const void* const* line, int64_t first_k) {
  for (int64_t p = first_k; p < s.kc; ++p)
    for (int64_t i = 0; i < s.height; ++i)
      s.to[p * s.height + i] = i < s.lines ? static_cast<float>(static_cast<const Stored<kType>*>(line[i])[p]) : 0.0f;
}

#if HWY_TARGET != HWY_SCALAR
// Four values at p from each of line[0], line[4], line[8], ...: one 4-block of the vector each.
template <class DT, class T = hn::TFromD<DT>>
HWY_INLINE hn::Vec<DT> load_blocks(DT dt, const T* const* line, int64_t p) {
  if constexpr (hn::MaxLanes(DT()) == 4) {
    return hn::LoadU(dt, *line + p);
  } else {
    const hn::Half<DT> half;
    return hn::Combine(dt, load_blocks(half, line + hn::MaxLanes(half), p), load_blocks(half, line, p));
  }
}

// kLanes lines at a time, four k at a time: 4x4 transposes in every 128-bit block at once leave one k per vector.
template <DType kType>
void transpose(const Strip& s, const void* const* lines) {
  using T = std::conditional_t<kType == DType::f32, float, uint16_t>;
  const hn::Rebind<T, D> dt;
  const hn::RepartitionToWide<hn::RebindToUnsigned<D>> d64;
  const int64_t whole = s.kc / 4 * 4;
  for (int64_t i = 0; i < s.height; i += kLanes) {
    const auto exists = hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(s.lines - i, 0, kLanes)));
    const T* line[kLanes];  // absent ones repeat the last
    for (int64_t q = 0; q < kLanes; ++q) line[q] = static_cast<const T*>(lines[std::min(i + q, s.lines - 1)]);
    for (int64_t p = 0; p < whole; p += 4) {
      hn::Vec<D> v[4];
      for (int64_t q = 0; q < 4; ++q) {
        const auto raw = load_blocks(dt, line + q, p);
        if constexpr (kType == DType::f32)
          v[q] = raw;
        else
          v[q] = widen(d, raw, kType);
      }
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, v[0], v[1])),
                 low23 = hn::BitCast(d64, hn::InterleaveLower(d, v[2], v[3])),
                 high01 = hn::BitCast(d64, hn::InterleaveUpper(d, v[0], v[1])),
                 high23 = hn::BitCast(d64, hn::InterleaveUpper(d, v[2], v[3]));
      const auto put_k = [&](int64_t q, auto k) { put(s, hn::IfThenElseZero(exists, hn::BitCast(d, k)), p + q, i); };
      put_k(0, hn::InterleaveLower(d64, low01, low23)), put_k(1, hn::InterleaveUpper(d64, low01, low23));
      put_k(2, hn::InterleaveLower(d64, high01, high23)), put_k(3, hn::InterleaveUpper(d64, high01, high23));
    }
  }
  transpose_slowly<kType>(s, lines, whole);
}
#else
template <DType kType>
void transpose(const Strip& s, const void* const* lines) {
  transpose_slowly<kType>(s, lines, 0);
}
#endif

void pack_apart(const void* const* line, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to) {
  const Strip s{lines, height, kc, to};
  if (dtype == DType::f32) return transpose<DType::f32>(s, line);
  if (dtype == DType::bf16) return transpose<DType::bf16>(s, line);
  return transpose<DType::f16>(s, line);
}
void pack_adjacent(const void* from, int64_t step, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to) {
  const Strip s{lines, height, kc, to};
  if (dtype == DType::f32) return copy<DType::f32>(s, from, step);
  if (dtype == DType::bf16) return copy<DType::bf16>(s, from, step);
  return copy<DType::f16>(s, from, step);
}

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::engine {
namespace {
HWY_EXPORT(pack_apart);
HWY_EXPORT(pack_adjacent);
}  // namespace

void pack_lines(const void* const* line, DType dtype, int64_t lines, int64_t height, int64_t kc, float* to) {
  HWY_DYNAMIC_DISPATCH(pack_apart)(line, dtype, lines, height, kc, to);
}

Matrix::Matrix(const void* data, DType dtype, int64_t line_step, int64_t k_step) : data_(data), dtype_(dtype) {
  this->line_step = line_step, this->k_step = k_step;
  if (dtype == DType::f32) plain = static_cast<const float*>(data);
}

void Matrix::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  const int64_t size = size_of(dtype_);
  const auto* from = static_cast<const char*>(data_) + (line0 * line_step + k0 * k_step) * size;
  if (line_step == 1)
    return HWY_DYNAMIC_DISPATCH(pack_adjacent)(from, k_step, dtype_, lines, height, k1 - k0, to);
  const void* line[kMaxHeight];
  for (int64_t i = 0; i < lines; ++i) line[i] = from + i * line_step * size;
  pack_lines(line, dtype_, lines, height, k1 - k0, to);
}

}  // namespace duet::engine
#endif
