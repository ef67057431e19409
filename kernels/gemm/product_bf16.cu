// SPDX-License-Identifier: Apache-2.0
// product_half.cuh for bf16, in a file of its own because these kernels take longest to compile.
#include "kernels/gemm/product_half.cuh"

namespace duet::DUET_DEVICE {

template void enqueue_product_half(const Product&, const __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*,
                                   __nv_bfloat16*, __nv_bfloat16*, const HalfDevice&);

template void enqueue_slope_product_half(const SlopeProduct&, const __nv_bfloat16*, const __nv_bfloat16*,
                                         const __nv_bfloat16*, __nv_bfloat16*, float*, cudaStream_t);

}  // namespace duet::DUET_DEVICE
