// SPDX-License-Identifier: Apache-2.0
// The passes of a linear layer with gelu beside its matrix products, with vectors: after the product forward, before
// the products backward; with gelu before the layer, after the product backward. Used by linear_*.cpp and
// gelu_linear_*.cpp, which divide rows or elements among threads unless the pass does.
#pragma once
#include <cstdint>

#include "core/cpu_context.h"
#include "core/dtype.h"

namespace duet {

// pre = sum + bias, and y = gelu of that sum before it is rounded to dtype, for rows [first, last). sum: (n, out) in
// f32, and may be pre; bias: (out); pre, y: (n, out) of dtype.
void finish_gelu(DType dtype, const float* sum, const void* bias, int64_t out, int64_t first, int64_t last, void* pre,
                 void* y);

// g = dy gelu'(pre) for elements [first, last), all of dtype.
void gelu_gradient(DType dtype, const void* pre, const void* dy, int64_t first, int64_t last, void* g);

// dh = product gelu'(h), and dbias = its column sums, on the threads of cpu: a task takes kSumColumns columns of
// kSumRows rows and leaves their sums in a row of `sums`, (slope_sums(n), in). product: (n, in) in f32, and may be dh;
// h, dh: (n, in) and dbias: (in), of dtype.
inline constexpr int64_t kSumRows = 32, kSumColumns = 512;
inline int64_t slope_sums(int64_t n) { return ceil_div(n, kSumRows); }
void gelu_gradient_and_sums(const CpuContext& cpu, DType dtype, const float* product, const void* h, int64_t n,
                            int64_t in, void* dh, void* dbias, float* sums);

}  // namespace duet
