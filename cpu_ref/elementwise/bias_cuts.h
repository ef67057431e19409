// SPDX-License-Identifier: Apache-2.0
// How bias_tuned.cpp cuts a tensor into blocks: as far as results depend on it, the same way on every instruction set
// and for any number of threads. Even with vectors of one lane, no term passes through more additions than
// ops/summation.h allows.
#pragma once
#include <cstdint>

namespace duet {

inline constexpr int64_t kMinLongPlane = 32;  // elements from which a plane has a loop of its own
inline constexpr int64_t kMinPattern = 2048;  // elements
inline constexpr int64_t kMinWideRow = 256;   // elements
inline constexpr int64_t kBlockRows = 256;    // of a block of columns
inline constexpr int64_t kPlanePart = 16384;  // elements of a plane that share one partial sum
inline constexpr int64_t kInL1 = 2048;        // elements of y and dy that fit L1 together

// Columns of a block, of a matrix of so many rows: its sums take 4 or 16 KiB. Wide ones read memory in longer runs, and
// serve where threads have enough of them. No result depends on it, since each column is summed on its own.
inline int64_t block_columns(int64_t rows, int64_t threads) { return rows >= 4 * threads * kBlockRows ? 4096 : 1024; }

// Where the partial sums of the backward pass lie: those of channel k at partial[group * stride + k * step + j], j <
// step.
struct Partials {
  int64_t groups, stride, step;
};

}  // namespace duet
