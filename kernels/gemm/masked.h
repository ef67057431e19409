// SPDX-License-Identifier: Apache-2.0
// What linear's backward passes share: the gradient before the activation. Declared apart from product.h, for library code.
#pragma once
#include <cuda_runtime_api.h>

#include "core/dtype.h"

namespace duet::DUET_DEVICE {

// g = dy where y > 0, else 0, for n elements of f32, bf16 or f16. linear_tuned.cu.
void enqueue_masked(DType dtype, int64_t n, const void* y, const void* dy, void* g, cudaStream_t stream);
// g = dy gelu'(pre), as above.
void enqueue_gelu_gradient(DType dtype, int64_t n, const void* pre, const void* dy, void* g, cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
