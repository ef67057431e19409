// SPDX-License-Identifier: Apache-2.0
// Approximate functions that CUDA has no intrinsic for. PTX stands only in simt/.
#pragma once
#include <cmath>

#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// 2^x in one instruction: a relative error of 2^-22, and 0 where the result is below 2^-126 (the PTX manual, ex2).
__device__ __forceinline__ float exp2_approx(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

}  // namespace duet::DUET_DEVICE
