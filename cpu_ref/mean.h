// SPDX-License-Identifier: Apache-2.0
// How sums over all elements of a tensor are cut, and added up: alike for any number of threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/dtype.h"

namespace duet {

// Elements of a block. 4 accumulators of one lane at least: no term passes through more than 1024 additions of f32.
inline constexpr int64_t kMeanBlock = 4096;
inline constexpr int64_t kMeanGrain = 4;  // blocks of a task

inline int64_t mean_blocks(int64_t n) { return ceil_div(n, kMeanBlock); }
inline double sum_of(const std::vector<double>& partial) {
  double sum = 0;
  for (const double part : partial) sum += part;
  return sum;
}
inline float mean_of(const std::vector<double>& partial, int64_t n) {  // of nothing: 0
  return static_cast<float>(sum_of(partial) / static_cast<double>(std::max<int64_t>(1, n)));
}

}  // namespace duet
