// SPDX-License-Identifier: Apache-2.0
// The bf16 micro-kernel: vdpbf16ps multiplies pairs of neighbouring k and adds both to an f32 sum.
#pragma once
#include <cstdint>

namespace duet::engine {

// sums (rows, 32) = the products of a packed strip of A and one of B. An element is a pair of bf16 (k, k + 1), 4 bytes:
// a (pairs, rows), b (pairs, 16 vectors).
struct PairTile {
  int64_t rows, vectors, pairs;  // 1 .. kPairRows, 1 .. 2
  const void *a, *b;
  float* sums;  // aligned to 64 bytes
};
constexpr int64_t kPairRows = 14, kPairColumns = 32;
void run_pair_tile(const PairTile& tile);  // call only where the CPU has AVX512_BF16

}  // namespace duet::engine
