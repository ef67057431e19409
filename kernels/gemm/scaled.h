// SPDX-License-Identifier: Apache-2.0
// The pass that makes y of the i32 sums of linear_int8: linear_int8_tuned.cu defines it, linear_int8_cublaslt.cpp uses
// it. It is apart from product.h because library code does not see simt/launch.h.
#pragma once
#include <cuda_runtime_api.h>

#include "core/dtype.h"

namespace duet::DUET_DEVICE {

struct ScaledSums {
  DType dtype;  // of bias and y: f32, bf16 or f16
  int64_t n, out;
  const int32_t* sums;  // (n, out)
  const float *scale_x, *scale_w;
  const void* bias;
  void* y;
};
// y = sums * scale_x * scale_w[o] + bias[o].
void enqueue_scaled(const ScaledSums& s, cudaStream_t stream);

}  // namespace duet::DUET_DEVICE
