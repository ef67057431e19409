// SPDX-License-Identifier: Apache-2.0
// One 16-byte pack per thread; every thread computes the scale from the norm.
#include "kernels/optimiser/clip.cuh"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {
namespace {
struct Shrink {
  Clip clip;
  template <class T>
  __device__ T operator()(T g) const {
    return T(float(g) * clip.factor());
  }
};

Plan clip_grad_norm_tuned(const ClipGradNorm& p, GpuContext& gpu) {
  using P = ClipGradNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      T* g = t[P::g].as<T>();
      const Shrink op{{t[P::norm].as<const float>(), static_cast<float>(p.max_norm)}};
      launch_map(stream, op, p.n, g, static_cast<const T*>(g));
    };
  });
}
DUET_REGISTER(clip_grad_norm_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
