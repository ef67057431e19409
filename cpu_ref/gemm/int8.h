// SPDX-License-Identifier: Apache-2.0
// How linear_int8_tuned.cpp and its micro-kernels cut a product of i8: sums (rows, columns) in i32, by steps of k that
// fill one 32-bit lane. A step is 4 values of k where the CPU has VNNI (int8_avx512vnni.cpp), and 2 values, widened to
// i16, elsewhere.
//   VNNI multiplies unsigned by signed bytes: the packed w holds w + 128, and each sum is too large by 128 times the
//   sum of its row of x.
// This header is included by a file that is built for AVX512_VNNI, so it has no inline function.
#pragma once
#include <cstdint>

namespace duet::int8 {

constexpr int kRows = 12;     // of a register tile, at most
constexpr int kColumns = 32;  // of a strip of w: 2 vectors of AVX-512

// A tile: sums[i * kColumns + j] of `rows` rows of x and kColumns rows of w. a: (steps, rows), b: (steps, kColumns), in
// packed lanes. add: to the sums that are there.
struct Tile {
  int64_t rows, steps;
  const int32_t *a, *b;
  int32_t* sums;
  bool add;
};
void run_tile_avx512vnni(const Tile& tile);

// Dot products of few rows of x with rows [first, last) of w, which are read where they lie: sums[o * kMaxVectors + i].
// x: (vectors, step), each row followed by zeros up to a multiple of 64. Its sums are too large as above.
constexpr int kMaxVectors = 4;
struct Dots {
  int64_t vectors, in, step;
  const int8_t *x, *w;
  int32_t* sums;
};
void run_dots_avx512vnni(const Dots& dots, int64_t first, int64_t last);

// y = (sums - offset[i]) * scale_x * scale_w + bias, for `rows` rows of up to kColumns columns from (i0, o0) on. sums:
// (rows, kColumns); offset: (rows), what each row's sums are too large by, or null.
struct Finish {
  int64_t rows, columns, i0, o0;
  const int32_t *sums, *offset;
};

}  // namespace duet::int8
