// SPDX-License-Identifier: Apache-2.0
// The micro-kernel of bf16: the instruction vdpbf16ps multiplies pairs of neighbouring k and adds both products to an
// f32 sum.
#pragma once
#include <cstdint>

namespace duet::engine {

// sums (rows, 32) = the product of some rows of A and a packed strip of B. Their elements are pairs (k, k + 1) of bf16,
// 4 bytes each. Pair p of row i of a: at i + p * rows if A is packed (a_line = 0), else at i * a_line + p; b: (pairs,
// vectors of 16). If `halves` is not null, the sums go there instead, rounded to bf16, rows halves_step apart; then
// there are two vectors.
struct PairTile {
  int64_t rows, vectors, pairs;  // rows: 1 .. kPairRows; vectors: 1 or 2
  const void* a;
  int64_t a_line;
  const void* b;
  float* sums;  // aligned to 64 bytes
  void* halves = nullptr;
  int64_t halves_step = 0;
};
constexpr int64_t kPairRows = 14, kPairColumns = 32;
void run_pair_tile(const PairTile& tile);  // call only where the CPU has AVX512_BF16

}  // namespace duet::engine
