// SPDX-License-Identifier: Apache-2.0
// The kernel of rounds.cuh for files without device code.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

void add_rounds(cudaStream_t stream, const float* x, float* y, int64_t n, int64_t rounds);  // x, y: (n)

}  // namespace duet::cuda
