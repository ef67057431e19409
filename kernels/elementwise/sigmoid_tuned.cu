// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, by map_kernel (vector.cuh); arithmetic is in f32.
#include "kernels/activation.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/sigmoid.h"

namespace duet::DUET_DEVICE {
namespace {
struct SigmoidOf {
  template <class T>
  __device__ T operator()(T x) const {
    const float v = float(x);
    return T(sigmoid(v));
  }
};

Plan sigmoid_tuned(const Sigmoid& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, SigmoidOf{}, p.n, t[Sigmoid::y].as<T>(), t[Sigmoid::x].as<const T>());
    };
  });
}
DUET_REGISTER(sigmoid_tuned);

struct SigmoidSlope {
  template <class T>
  __device__ T operator()(T y, T dy) const {
    const float v = float(y), g = float(dy);
    return T(g * v * (1 - v));
  }
};

Plan sigmoid_backward_tuned(const SigmoidBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, SigmoidSlope{}, p.n, t[SigmoidBackward::dx].as<T>(), t[SigmoidBackward::y].as<const T>(),
                 t[SigmoidBackward::dy].as<const T>());
    };
  });
}
DUET_REGISTER(sigmoid_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
