// SPDX-License-Identifier: Apache-2.0
// Cooperative launches: all blocks are on the device at once. Kernels reach them through simt/cooperative.h.
#pragma once
#include "core/grid.h"

namespace duet::cuda {

// As launch_kernel() (core/cuda/launch.h). CUDA refuses more blocks than fit on the device.
void launch_cooperative_kernel(const void* kernel, const Grid& grid, void** args);

// How many blocks of such a launch fit on the device's multiprocessors; 0 where it has no such launches.
int64_t cooperative_blocks(const void* kernel, int threads, int64_t shared_bytes, int multiprocessors);

}  // namespace duet::cuda
