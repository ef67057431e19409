// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, by map_kernel (vector.cuh); arithmetic is in f32.
#include "kernels/activation.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/gelu.h"

namespace duet::DUET_DEVICE {
namespace {
template <bool kTanh>
struct GeluOf {
  template <class T>
  __device__ T operator()(T x) const {
    return T(kTanh ? gelu_tanh(float(x)) : gelu_erf(float(x)));
  }
};

Plan gelu_tuned(const Gelu& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[Gelu::x].as<const T>();
      T* y = t[Gelu::y].as<T>();
      if (p.form == GeluForm::tanh)
        launch_map(stream, GeluOf<true>{}, p.n, y, x);
      else
        launch_map(stream, GeluOf<false>{}, p.n, y, x);
    };
  });
}
DUET_REGISTER(gelu_tuned);

template <bool kTanh>
struct GeluSlope {
  template <class T>
  __device__ T operator()(T x, T dy) const {
    return T(float(dy) * (kTanh ? gelu_tanh_slope(float(x)) : gelu_erf_slope(float(x))));
  }
};

Plan gelu_backward_tuned(const GeluBackward& p, GpuContext& gpu) {
  using P = GeluBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
      T* dx = t[P::dx].as<T>();
      if (p.form == GeluForm::tanh)
        launch_map(stream, GeluSlope<true>{}, p.n, dx, x, dy);
      else
        launch_map(stream, GeluSlope<false>{}, p.n, dx, x, dy);
    };
  });
}
DUET_REGISTER(gelu_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
