// SPDX-License-Identifier: Apache-2.0
// One 16-byte pack per thread; every thread computes the scale from the norm.
#include "kernels/vector.cuh"
#include "ops/optimiser/clip_grad_norm.h"

namespace duet::DUET_DEVICE {
namespace {
struct Shrink {
  const float* norm;
  float max_norm, guard;
  template <class T>
  __device__ T operator()(T g) const {
    return T(float(g) * fminf(1, max_norm / (*norm + guard)));
  }
};

Plan clip_grad_norm_tuned(const ClipGradNorm& p, GpuContext& gpu) {
  using P = ClipGradNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      T* g = t[P::g].as<T>();
      const Shrink op{t[P::norm].as<const float>(), static_cast<float>(p.max_norm), static_cast<float>(P::kGuard)};
      launch_map(stream, op, p.n, g, static_cast<const T*>(g));
    };
  });
}
DUET_REGISTER(clip_grad_norm_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
