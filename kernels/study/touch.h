// SPDX-License-Identifier: Apache-2.0
// The kernel of touch.cuh for files without device code.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

void touch_pages(cudaStream_t stream, const float* x, void* memory, float* y, int64_t pages);  // x, y: (pages)

}  // namespace duet::cuda
