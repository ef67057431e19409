// SPDX-License-Identifier: Apache-2.0
// Touches pages of 4 KiB: memory[4096 p] = x[p], then y[p] = memory[4096 p]. For study/allocation.
#pragma once
#include "ops/study/allocation.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

inline constexpr int kTouchBlock = 256;  // threads

// ceil(pages / kTouchBlock) blocks, one page per thread. x, y: (pages). The read is volatile: no compiler may keep the
// value that was written.
static __global__ void __launch_bounds__(kTouchBlock)
    touch_kernel(const float* x, float* memory, float* y, int64_t pages) {
  const int64_t p = int64_t{blockIdx.x} * kTouchBlock + threadIdx.x;
  if (p >= pages) return;
  volatile float* const page = memory + p * (Allocation::kPageBytes / int64_t{sizeof(float)});
  *page = x[p];
  y[p] = *page;
}

inline void launch_touch(cudaStream_t stream, const float* x, float* memory, float* y, int64_t pages) {
  const Grid grid{.blocks = ceil_div(pages, kTouchBlock), .threads = kTouchBlock, .stream = stream};
  launch(touch_kernel, grid, x, memory, y, pages);
}

}  // namespace duet::DUET_DEVICE
