// SPDX-License-Identifier: Apache-2.0
// The nodes of study/launch for files without device code.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

void enqueue_nodes(cudaStream_t stream, const float* x, float* y, int64_t nodes);  // x, y: (nodes, 64)

}  // namespace duet::cuda
