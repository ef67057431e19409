// SPDX-License-Identifier: Apache-2.0
// The gradient before the activation, for linear's backward passes: linear_tuned.cu defines it, linear_cublaslt.cpp
// uses it. It is apart from product.h because library code does not see simt/launch.h.
#pragma once
#include <cuda_runtime_api.h>

#include "core/dtype.h"

namespace duet::DUET_DEVICE {

// g = dy where y > 0, else 0, for n elements of f32, bf16 or f16.
void enqueue_masked(DType dtype, int64_t n, const void* y, const void* dy, void* g, cudaStream_t stream);
// g = dy gelu'(pre), for the same types.
void enqueue_gelu_gradient(DType dtype, int64_t n, const void* pre, const void* dy, void* g, cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
