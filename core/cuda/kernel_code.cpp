// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/kernel_code.h"

#include <cuda_runtime.h>

#include "core/cuda/check.h"

namespace duet::cuda {

int64_t static_shared_bytes(const void* kernel) {
  cudaFuncAttributes attributes{};
  DUET_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  return static_cast<int64_t>(attributes.sharedSizeBytes);
}

}  // namespace duet::cuda
