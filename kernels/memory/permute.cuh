// SPDX-License-Identifier: Apache-2.0
// The index map of permute_tuned.cu. A run is D consecutive elements, which permute moves together.
#pragma once
#include "kernels/divider.cuh"
#include "ops/memory/permute.h"

namespace duet::DUET_DEVICE {

// The axes of y without the last, innermost first, with their strides in runs of x. Three dividers split off the inner
// three axes; the remaining quotient is the index along the outermost.
struct PermuteAxes {
  explicit PermuteAxes(const Permute& p)
      : by{Divider(p.inverse ? p.H : p.T), Divider(p.inverse ? p.split : p.H), Divider(p.inverse ? p.T : p.B)},
        step{p.inverse ? p.T : p.split * p.H, p.inverse ? p.B * p.H * p.T : 1, p.inverse ? 1 : p.T * p.split * p.H,
             p.inverse ? p.H * p.T : p.H} {}
  Divider by[3];
  int64_t step[4];
  __device__ __forceinline__ int64_t run_of_x(uint32_t run_of_y) const {
    int64_t run = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) run += by[axis].split(run_of_y) * step[axis];
    return run + run_of_y * step[3];
  }
};

}  // namespace duet::DUET_DEVICE
