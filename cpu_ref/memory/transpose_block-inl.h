// SPDX-License-Identifier: Apache-2.0
// Transposes of small squares in registers: 4 x 4 elements of 4 bytes, 8 x 8 of 2 bytes, which is what 128-bit vectors
// can do with interleaves alone. Wider vectors would need shuffles across their 128-bit parts, and memory is the limit
// anyway. Used by transpose_tuned.cpp and conv/filter_tile.cpp. Include after foreach_target.
#if defined(DUET_CPU_REF_TRANSPOSE_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_TRANSPOSE_BLOCK_INL_H_
#undef DUET_CPU_REF_TRANSPOSE_BLOCK_INL_H_
#else
#define DUET_CPU_REF_TRANSPOSE_BLOCK_INL_H_
#endif
#include <cstdint>

#include "core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
template <class T>
inline constexpr int64_t kSide = 1;

template <class T>
HWY_INLINE void transpose_block(const T* x, int64_t, T* y, int64_t) {
  *y = *x;
}
#else
template <class T>
inline constexpr int64_t kSide = 16 / sizeof(T);

// y[j][i] = x[i][j] for i, j < kSide; x_step and y_step: elements between rows.
HWY_INLINE void transpose_block(const uint32_t* x, int64_t x_step, uint32_t* y, int64_t y_step) {
  const hn::Full128<uint32_t> d;
  const hn::Full128<uint64_t> d2;
  const auto x0 = hn::LoadU(d, x), x1 = hn::LoadU(d, x + x_step);
  const auto x2 = hn::LoadU(d, x + 2 * x_step), x3 = hn::LoadU(d, x + 3 * x_step);
  // Pairs of rows, interleaved; then pairs of pairs.
  const auto a0 = hn::BitCast(d2, hn::InterleaveLower(d, x0, x1)), a1 = hn::BitCast(d2, hn::InterleaveUpper(d, x0, x1));
  const auto b0 = hn::BitCast(d2, hn::InterleaveLower(d, x2, x3)), b1 = hn::BitCast(d2, hn::InterleaveUpper(d, x2, x3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a0, b0)), d, y);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a0, b0)), d, y + y_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a1, b1)), d, y + 2 * y_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a1, b1)), d, y + 3 * y_step);
}

HWY_INLINE void transpose_block(const uint16_t* x, int64_t x_step, uint16_t* y, int64_t y_step) {
  const hn::Full128<uint16_t> d;
  const hn::Full128<uint32_t> d2;
  const hn::Full128<uint64_t> d4;
  // Pairs of rows: pair[2 p + h] holds columns 4 h .. 4 h + 3 of rows 2 p and 2 p + 1.
  hn::Vec<decltype(d2)> pair[8];
#pragma GCC unroll 4
  for (int p = 0; p < 4; ++p) {
    const auto even = hn::LoadU(d, x + 2 * p * x_step), odd = hn::LoadU(d, x + (2 * p + 1) * x_step);
    pair[2 * p] = hn::BitCast(d2, hn::InterleaveLower(d, even, odd));
    pair[2 * p + 1] = hn::BitCast(d2, hn::InterleaveUpper(d, even, odd));
  }
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    // Columns 2 q and 2 q + 1: of rows 0 .. 3 (top) and of rows 4 .. 7 (low).
    const int h = q / 2;
    const auto top =
        q % 2 ? hn::InterleaveUpper(d2, pair[h], pair[2 + h]) : hn::InterleaveLower(d2, pair[h], pair[2 + h]);
    const auto low =
        q % 2 ? hn::InterleaveUpper(d2, pair[4 + h], pair[6 + h]) : hn::InterleaveLower(d2, pair[4 + h], pair[6 + h]);
    const auto a = hn::BitCast(d4, top), b = hn::BitCast(d4, low);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d4, a, b)), d, y + 2 * q * y_step);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d4, a, b)), d, y + (2 * q + 1) * y_step);
  }
}
#endif

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
