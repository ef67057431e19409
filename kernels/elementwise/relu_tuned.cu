// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, by map_kernel (vector.cuh).
#include "kernels/vector.cuh"
#include "ops/elementwise/relu.h"

namespace duet::DUET_DEVICE {
namespace {
struct Positive {
  template <class T>
  __device__ T operator()(T x) const {
    return T(fmaxf(float(x), 0));
  }
};

Plan relu_tuned(const Relu& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, Positive{}, p.n, t[Relu::y].as<T>(), t[Relu::x].as<const T>());
    };
  });
}
DUET_REGISTER(relu_tuned);

struct WherePositive {
  template <class T>
  __device__ T operator()(T x, T dy) const {
    return float(x) > 0 ? dy : T(0.0f);
  }
};

Plan relu_backward_tuned(const ReluBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, WherePositive{}, p.n, t[ReluBackward::dx].as<T>(), t[ReluBackward::x].as<const T>(),
                 t[ReluBackward::dy].as<const T>());
    };
  });
}
DUET_REGISTER(relu_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
