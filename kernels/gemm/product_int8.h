// SPDX-License-Identifier: Apache-2.0
// The tuned product of i8 with sums in i32 (product_int8.cu), called by gemm. The transposes of bytes serve f8e4m3 as
// well.
#pragma once
#include <utility>

#include "kernels/gemm/product.h"

namespace duet::DUET_DEVICE {

// c = op(a) op(b), of Product without alpha, bias and activation. An operand whose k is not contiguous is transposed
// into the workspace first.
int64_t product_int8_workspace_bytes(const Product& p);
// The first half of it: enqueues the transposes, and returns a (batch, m, k) and b (batch, n, k).
std::pair<const int8_t*, const int8_t*> enqueue_contiguous_depth(const Product& p, const int8_t* a, const int8_t* b,
                                                                 int8_t* workspace, cudaStream_t stream);
void enqueue_product_int8(const Product& p, const int8_t* a, const int8_t* b, int32_t* c, int8_t* workspace,
                          cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
