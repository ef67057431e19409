// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, by map_kernel (vector.cuh); arithmetic is in f32.
#include "kernels/vector.cuh"
#include "ops/elementwise/tanh.h"

namespace duet::DUET_DEVICE {
namespace {
struct TanhOf {
  template <class T>
  __device__ T operator()(T x) const {
    const float v = float(x);
    return T(tanhf(v));
  }
};

Plan tanh_tuned(const Tanh& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, TanhOf{}, p.n, t[Tanh::y].as<T>(), t[Tanh::x].as<const T>());
    };
  });
}
DUET_REGISTER(tanh_tuned);

struct TanhSlope {
  template <class T>
  __device__ T operator()(T y, T dy) const {
    const float v = float(y), g = float(dy);
    return T(g * (1 - v * v));
  }
};

Plan tanh_backward_tuned(const TanhBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, TanhSlope{}, p.n, t[TanhBackward::dx].as<T>(), t[TanhBackward::y].as<const T>(),
                 t[TanhBackward::dy].as<const T>());
    };
  });
}
DUET_REGISTER(tanh_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
