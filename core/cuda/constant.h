// SPDX-License-Identifier: Apache-2.0
// Variables in constant memory, which copies on a stream fill. Kernels reach them through simt/constant.h.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace duet::cuda {

// Has the runtime load the variable: at the first use it may allocate memory, which a capture does not allow.
void load_constant_variable(const void* variable);

// Enqueues a copy from device memory to the beginning of the variable. Throws Error where it does not fit.
void fill_constant_variable(const void* variable, const void* from, int64_t bytes, cudaStream_t stream);

}  // namespace duet::cuda
