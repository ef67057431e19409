// SPDX-License-Identifier: Apache-2.0
// How the sum over all elements of a tensor (norm2, the losses) is cut into blocks and put together. The blocks do not
// depend on the number of threads, so neither does the result. mean-inl.h has the vector code.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/dtype.h"

namespace duet {

// Elements of a block. sum (reduce-inl.h) has four accumulators of at least one lane, so no term passes through more
// than 1024 additions of f32 and a few.
inline constexpr int64_t kMeanBlock = 4096;
inline constexpr int64_t kMeanGrain = 4;  // blocks a task takes at least

inline int64_t mean_blocks(int64_t n) { return ceil_div(n, kMeanBlock); }
// The sums of the blocks, added in order. partial: (mean_blocks(n)).
inline double sum_of(const double* partial, int64_t n) {
  return std::accumulate(partial, partial + mean_blocks(n), 0.0);
}
// The mean over n elements; of no elements it is 0.
inline float mean_of(const double* partial, int64_t n) {
  return static_cast<float>(sum_of(partial, n) / static_cast<double>(std::max<int64_t>(1, n)));
}

// The same of losses that rows left, which are added in order.
inline float mean_of_rows(const double* row_loss, int64_t rows) {
  const double sum = std::accumulate(row_loss, row_loss + rows, 0.0);
  return static_cast<float>(sum / static_cast<double>(std::max<int64_t>(1, rows)));
}

}  // namespace duet
