// SPDX-License-Identifier: Apache-2.0
// The micro-kernel of bf16: 14 x 2 vectors of sums in registers, as in engine_kernel.cpp, with intrinsics because
// Highway 1.0 has no bf16 products. This file alone is built for AVX512_BF16, so it must include nothing but
// intrinsics: an inline function of another header would be compiled with instructions that other CPUs lack.
// engine_pairs.cpp calls it.
#include "cpu_ref/gemm/engine_avx512bf16.h"

#include <immintrin.h>

namespace duet::engine {
namespace {

// Rows that are read in place may begin at any bf16.
inline __m512bh broadcast(const int32_t* pair) {
  int32_t value;
  __builtin_memcpy(&value, pair, sizeof(value));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(value));
}

// One tile of kRows rows and kVectors vectors of columns.
template <int kRows, int kVectors, bool kPacked>
void kernel(const PairTile& t) {
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) sum[i][j] = _mm512_setzero_ps();
  // Products of all pairs.
  const auto* a = static_cast<const int32_t*>(t.a);
  const auto* b = static_cast<const int32_t*>(t.b);
  for (int64_t p = 0; p < t.pairs; ++p, a += kPacked ? kRows : 1, b += 16 * kVectors) {
    __m512bh column[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      column[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 16 * j));
      _mm_prefetch(reinterpret_cast<const char*>(b + 8 * 16 * kVectors + 16 * j), _MM_HINT_T0);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const auto row = broadcast(a + (kPacked ? i : i * t.a_line));
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], row, column[j]);
    }
  }
  // Write back.
  if constexpr (kVectors == 2)
    if (t.halves) {
      auto* to = static_cast<uint16_t*>(t.halves);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i, to += t.halves_step)
        _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(sum[i][1], sum[i][0])));
      return;
    }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) _mm512_store_ps(t.sums + i * kPairColumns + 16 * j, sum[i][j]);
}

using Kernel = void (*)(const PairTile&);
template <int kVectors, bool kPacked>
constexpr Kernel kKernels[kPairRows] = {
    kernel<1, kVectors, kPacked>,  kernel<2, kVectors, kPacked>,  kernel<3, kVectors, kPacked>,
    kernel<4, kVectors, kPacked>,  kernel<5, kVectors, kPacked>,  kernel<6, kVectors, kPacked>,
    kernel<7, kVectors, kPacked>,  kernel<8, kVectors, kPacked>,  kernel<9, kVectors, kPacked>,
    kernel<10, kVectors, kPacked>, kernel<11, kVectors, kPacked>, kernel<12, kVectors, kPacked>,
    kernel<13, kVectors, kPacked>, kernel<14, kVectors, kPacked>};

}  // namespace

void run_pair_tile(const PairTile& t) {
  const auto& kernels = t.a_line == 0 ? (t.vectors == 2 ? kKernels<2, true> : kKernels<1, true>)
                                      : (t.vectors == 2 ? kKernels<2, false> : kKernels<1, false>);
  kernels[t.rows - 1](t);
}

}  // namespace duet::engine
