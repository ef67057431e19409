// SPDX-License-Identifier: Apache-2.0
// One thread, since there are only three scalars.
#include "simt/launch.h"
#include "ops/elementwise/scale_update.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr float kMinScale = 0x1p-126f;  // the smallest normal number

// One thread. bad, scale, good: (1).
__global__ void scale_update_kernel(const int32_t* bad, float* scale, int32_t* good, int64_t interval) {
  if (*bad != 0) {
    *scale = fmaxf(*scale / 2, kMinScale);
    *good = 0;
  } else if (++*good >= interval) {
    if (2 * *scale < INFINITY) *scale *= 2;
    *good = 0;
  }
}

Plan scale_update_naive(const ScaleUpdate& p, GpuContext& gpu) {
  using P = ScaleUpdate;
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  return [p, stream = gpu.stream()](Args t) {
    launch(scale_update_kernel, Grid{.stream = stream}, t[P::bad].as<const int32_t>(), t[P::scale].as<float>(),
           t[P::good].as<int32_t>(), p.interval);
  };
}
DUET_REGISTER(scale_update_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
