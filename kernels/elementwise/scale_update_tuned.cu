// SPDX-License-Identifier: Apache-2.0
// One thread, as in scale_update_naive.cu, but the three loads are issued together.
#include "simt/launch.h"
#include "ops/elementwise/scale_update.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr float kMinScale = 0x1p-126f;  // the smallest normal number

// One thread. bad, scale, good: (1).
__global__ void scale_update_kernel(const int32_t* bad, float* scale, int32_t* good, int64_t interval) {
  const bool failed = *bad != 0;
  const int32_t count = *good + 1;
  const float now = *scale, twice = 2 * now < INFINITY ? 2 * now : now;
  const bool full = !failed && count >= interval;
  *scale = failed ? fmaxf(now / 2, kMinScale) : full ? twice : now;
  *good = failed || full ? 0 : count;
}

Plan scale_update_tuned(const ScaleUpdate& p, GpuContext& gpu) {
  using P = ScaleUpdate;
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  return [p, stream = gpu.stream()](Args t) {
    launch(scale_update_kernel, Grid{.stream = stream}, t[P::bad].as<const int32_t>(), t[P::scale].as<float>(),
           t[P::good].as<int32_t>(), p.interval);
  };
}
DUET_REGISTER(scale_update_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
