// SPDX-License-Identifier: Apache-2.0
// An ordinary cached load, for kernels that compare kinds of memory.
#pragma once
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

// *p. Written as PTX, because nvcc would take the read-only path where it sees that nothing writes. A volatile load
// would bypass the first cache, ordered beside those of the whole system.
__device__ __forceinline__ float cached_load(const float* p) {
#ifdef __CUDA_ARCH__
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(__cvta_generic_to_global(p)));
  return v;
#else
  return *p;
#endif
}

}  // namespace duet::DUET_DEVICE
