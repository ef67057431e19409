// SPDX-License-Identifier: Apache-2.0
// How many blocks of a kernel fit on a multiprocessor at once, by the runtime. On the host nothing is resident.
#pragma once
#include "simt/launch.h"

#ifdef __CUDACC__
#include "core/cuda/check.h"
#endif

namespace duet::DUET_DEVICE {

#ifdef __CUDACC__
inline int resident_blocks(const void* kernel, int threads, int64_t shared_bytes) {
  if (shared_bytes > (48 << 10))
    DUET_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  int blocks = 0;
  DUET_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, static_cast<size_t>(shared_bytes)));
  return blocks;
}
#else
inline int resident_blocks(const void*, int, int64_t) { return -1; }
#endif

}  // namespace duet::DUET_DEVICE
