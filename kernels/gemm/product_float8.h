// SPDX-License-Identifier: Apache-2.0
// The products of f8e4m3 with a result in bf16, called by gemm: the tuned one (product_float8.cu), and what the naive
// one shares with it.
#pragma once
#include "core/plan.h"
#include "kernels/gemm/float8.h"
#include "kernels/gemm/product.h"

namespace duet::DUET_DEVICE {

// CUDA's own type of such values would bring its conversions, which below sm_89 are emulated; kernels take the bits.
inline const uint8_t* float8_bits(const Tensor& t) { return reinterpret_cast<const uint8_t*>(t.as<const f8e4m3>()); }

// The value of the bits of an f8e4m3.
__device__ __forceinline__ float float_of_e4m3(uint8_t bits) {
  const unsigned magnitude = bits & 0x7fu;
  // Exponent and fraction at their places in an f32, whose bias is larger by 120. Exact for subnormal values, too.
  const float value = magnitude == 0x7fu ? __uint_as_float(0x7fc00000u) : __uint_as_float(magnitude << 20) * 0x1p120f;
  return bits & 0x80u ? -value : value;
}

// c = alpha op(a) op(b), of Product without bias and activation. An operand whose k is not contiguous is transposed
// into the workspace first. Needs kFloat8Capability.
int64_t product_float8_workspace_bytes(const Product& p);
void enqueue_product_float8(const Product& p, const uint8_t* a, const uint8_t* b, __nv_bfloat16* c, int8_t* workspace,
                            cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
