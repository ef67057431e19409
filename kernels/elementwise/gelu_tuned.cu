// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, by map_kernel (vector.cuh); arithmetic is in f32. The tanh form takes the
// GPU's approximate exponential and division: with the library's, halves would be bound by instructions. With the
// largest errors that CUDA documents for them, 2 + 1.17 |z| ulp of exp(z) and 2 ulp of a quotient, results in f32 reach
// 0.6 of the contract's bound of y and 0.8 of that of the slope.
#include "kernels/activation.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/gelu.h"

namespace duet::DUET_DEVICE {
namespace {
// x sigmoid(z) of gelu_tanh(). Where exp(-z) overflows, the result is 0.
__device__ __forceinline__ float fast_gelu_tanh(float x) {
  return __fdividef(x, 1 + __expf(-x * (kGeluLinear + kGeluCubic * x * x)));
}
// s + x s (1 - s) z' of gelu_tanh_slope(), with one exponential: for a = exp(-|z|), the larger of s = sigmoid(z) and
// 1 - s is 1 / (1 + a), and the other one a / (1 + a), without cancellation.
__device__ __forceinline__ float fast_gelu_tanh_slope(float x) {
  constexpr float kGeluFlat = 20;
  if (fabsf(x) > kGeluFlat) x = copysignf(kGeluFlat, x);  // not for NaN
  const float square = x * x, z = x * (kGeluLinear + kGeluCubic * square);
  const float a = __expf(-fabsf(z)), larger = __fdividef(1, 1 + a), smaller = a * larger;
  return (z < 0 ? smaller : larger) + x * (kGeluLinear + 3 * kGeluCubic * square) * (larger * smaller);
}

template <bool kTanh>
struct GeluOf {
  template <class T>
  __device__ T operator()(T x) const {
    return T(kTanh ? fast_gelu_tanh(float(x)) : gelu_erf(float(x)));
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
    return T(float(dy) * (kTanh ? fast_gelu_tanh_slope(float(x)) : gelu_erf_slope(float(x))));
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
