// SPDX-License-Identifier: Apache-2.0
// The micro-kernels of i8 on AVX512_VNNI: vpdpbusd adds 4 products of bytes to each of 16 sums in i32. With intrinsics,
// because Highway 1.0 lacks it. This file alone is built for AVX512_VNNI, so it must include nothing but intrinsics: an
// inline function of another header would be compiled with instructions that other CPUs lack. linear_int8_tuned.cpp
// calls it.
#include <immintrin.h>

#include "cpu_ref/gemm/int8.h"

namespace duet::int8 {
namespace {

// One tile of kTileRows rows and 2 vectors of columns: up to 24 sums in registers.
template <int kTileRows>
void kernel(const Tile& t) {
  __m512i sum[kTileRows][2];
#pragma GCC unroll 12
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j)
      sum[i][j] = t.add ? _mm512_loadu_si512(t.sums + i * kColumns + 16 * j) : _mm512_setzero_si512();
  // Products of all steps.
  const int32_t *a = t.a, *b = t.b;
  for (int64_t p = 0; p < t.steps; ++p, a += kTileRows, b += kColumns) {
    const __m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + 16);
    _mm_prefetch(reinterpret_cast<const char*>(b + 8 * kColumns), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + 8 * kColumns + 16), _MM_HINT_T0);
#pragma GCC unroll 12
    for (int i = 0; i < kTileRows; ++i) {
      const __m512i row = _mm512_set1_epi32(a[i]);
      sum[i][0] = _mm512_dpbusd_epi32(sum[i][0], b0, row);
      sum[i][1] = _mm512_dpbusd_epi32(sum[i][1], b1, row);
    }
  }
  // Write back.
#pragma GCC unroll 12
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) _mm512_storeu_si512(t.sums + i * kColumns + 16 * j, sum[i][j]);
}

// 4 rows of w at a time, so that enough sums are under way; rows that do not exist repeat the last one.
template <int kVectors>
void dots(const Dots& d, int64_t first, int64_t last) {
  constexpr int kLines = 4;
  const __m512i flip = _mm512_set1_epi8(-128);  // w + 128
  for (int64_t o = first; o < last; o += kLines) {
    const int8_t* line[kLines];
    for (int l = 0; l < kLines; ++l) line[l] = d.w + (o + l < last ? o + l : last - 1) * d.in;
    __m512i sum[kLines][kVectors];
#pragma GCC unroll 4
    for (int l = 0; l < kLines; ++l)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[l][v] = _mm512_setzero_si512();
    for (int64_t p = 0; p < d.in; p += 64) {
      const int64_t left = d.in - p;
      const __mmask64 mask = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
      __m512i x[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) x[v] = _mm512_loadu_si512(d.x + v * d.step + p);
#pragma GCC unroll 4
      for (int l = 0; l < kLines; ++l) {
        const __m512i w = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, line[l] + p), flip);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[l][v] = _mm512_dpbusd_epi32(sum[l][v], w, x[v]);
      }
    }
    for (int l = 0; l < kLines && o + l < last; ++l)
      for (int v = 0; v < kVectors; ++v) d.sums[(o + l) * kMaxVectors + v] = _mm512_reduce_add_epi32(sum[l][v]);
  }
}

}  // namespace

void run_tile_avx512vnni(const Tile& t) {
  constexpr void (*kKernels[kRows])(const Tile&) = {kernel<1>, kernel<2>,  kernel<3>,  kernel<4>,
                                                    kernel<5>, kernel<6>,  kernel<7>,  kernel<8>,
                                                    kernel<9>, kernel<10>, kernel<11>, kernel<12>};
  kKernels[t.rows - 1](t);
}
void run_dots_avx512vnni(const Dots& d, int64_t first, int64_t last) {
  constexpr void (*kDots[kMaxVectors])(const Dots&, int64_t, int64_t) = {dots<1>, dots<2>, dots<3>, dots<4>};
  kDots[d.vectors - 1](d, first, last);
}

}  // namespace duet::int8
