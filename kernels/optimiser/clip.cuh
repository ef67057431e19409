// SPDX-License-Identifier: Apache-2.0
// The factor that clips gradients to a norm; used by clip_grad_norm and by the optimisers that clip while they read.
#pragma once
#include "simt/launch.h"
#include "ops/optimiser/clip_grad_norm.h"

namespace duet::DUET_DEVICE {

// norm: (1) in device memory.
struct Clip {
  const float* norm;
  float max_norm;
  __device__ __forceinline__ float factor() const {
    return fminf(1, max_norm / (*norm + static_cast<float>(ClipGradNorm::kGuard)));
  }
};

}  // namespace duet::DUET_DEVICE
