// SPDX-License-Identifier: Apache-2.0
// The passes of a linear layer with gelu beside its matrix products, with vectors: after the product forward, before
// the products backward. Used by linear_tuned.cpp and linear_openblas.cpp, which divide rows or elements among threads.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace duet {

// pre = sum + bias, and y = gelu of that sum before it is rounded to dtype, for rows [first, last). sum: (n, out) in
// f32, and may be pre; bias: (out); pre, y: (n, out) of dtype.
void finish_gelu(DType dtype, const float* sum, const void* bias, int64_t out, int64_t first, int64_t last, void* pre,
                 void* y);

// g = dy gelu'(pre) for elements [first, last), all of dtype.
void gelu_gradient(DType dtype, const void* pre, const void* dy, int64_t first, int64_t last, void* g);

}  // namespace duet
