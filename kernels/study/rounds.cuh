// SPDX-License-Identifier: Apache-2.0
// y = x + rounds by as many multiply-adds, one after the other: the work of study/pipeline and study/occupancy.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

inline constexpr int kRoundsBlock = 256;  // threads

// ceil(n / kRoundsBlock) blocks, one element per thread. `one` is an argument, so that the compiler knows neither
// factor nor term. x, y: (n). A launch may ask for shared memory, which is not used: it keeps other blocks away.
static __global__ void __launch_bounds__(kRoundsBlock)
    rounds_kernel(const float* x, float* y, int64_t n, int64_t rounds, float one) {
  const int64_t i = int64_t{blockIdx.x} * kRoundsBlock + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
#pragma unroll 8
  for (int64_t r = 0; r < rounds; ++r) v = fmaf(v, one, one);
  y[i] = v;
}

inline void launch_rounds(cudaStream_t stream, const float* x, float* y, int64_t n, int64_t rounds,
                          int64_t shared_bytes = 0) {
  const Grid grid{
      .blocks = ceil_div(n, kRoundsBlock), .threads = kRoundsBlock, .shared_bytes = shared_bytes, .stream = stream};
  launch(rounds_kernel, grid, x, y, n, rounds, 1.0f);
}

}  // namespace duet::DUET_DEVICE
