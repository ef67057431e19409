// SPDX-License-Identifier: Apache-2.0
// How sums over all elements of a tensor are cut, and added up: alike for any number of threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/dtype.h"

namespace duet {

// Elements of a block. 4 accumulators of one lane at least: no term passes through more than 1024 additions of f32.
inline constexpr int64_t kMeanBlock = 4096;
inline constexpr int64_t kMeanGrain = 4;  // blocks of a task

inline int64_t mean_blocks(int64_t n) { return ceil_div(n, kMeanBlock); }
// Of the sums of all blocks, partial (mean_blocks(n)).
inline double sum_of(const double* partial, int64_t n) {
  return std::accumulate(partial, partial + mean_blocks(n), 0.0);
}
inline float mean_of(const double* partial, int64_t n) {  // 0 for n = 0
  return static_cast<float>(sum_of(partial, n) / static_cast<double>(std::max<int64_t>(1, n)));
}

}  // namespace duet
