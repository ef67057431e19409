// SPDX-License-Identifier: Apache-2.0
// A node of study/launch: two warps add 1 to a row.
#pragma once
#include "ops/study/launch.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// One block of 64 threads. x, y: (64).
static __global__ void node_kernel(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x] + 1; }

inline void launch_nodes(cudaStream_t stream, const float* x, float* y, int64_t nodes) {
  for (int64_t node = 0; node < nodes; ++node)
    launch(node_kernel, Grid{.blocks = 1, .threads = Launch::kCols, .stream = stream}, x + node * Launch::kCols,
           y + node * Launch::kCols);
}

}  // namespace duet::DUET_DEVICE
