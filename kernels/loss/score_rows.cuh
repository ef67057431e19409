// SPDX-License-Identifier: Apache-2.0
// How the rows of scores are distributed in cross_entropy and distill: a warp or a block reads a row.
#pragma once
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE::scores {

inline constexpr int kWarp = 32, kBlock = 512;  // threads for one row

// Whether a row is read by a warp: short rows, unless there are so few that warps would leave most of the GPU idle.
inline bool by_warp(int64_t rows, int64_t cols, int multiprocessors) {
  return cols <= 8 * kWarp || (cols <= 1024 && rows > int64_t{4} * multiprocessors);
}

// kThreads = 32: blocks of (32, 8), a warp for each of 8 rows. kThreads = 512: one block for each row.
template <int kThreads>
Grid grid_of(int64_t rows, cudaStream_t stream) {
  constexpr int kRows = kThreads == kWarp ? 8 : 1;
  return {.blocks = ceil_div(rows, kRows), .threads = {kThreads, kRows}, .stream = stream};
}

}  // namespace duet::DUET_DEVICE::scores
