// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor: forward by map_kernel (vector.cuh), backward by a kernel of its own, which
// reads gate, up and dy once for both gradients. Arithmetic is in f32.
#include "kernels/activation.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/swiglu.h"

namespace duet::DUET_DEVICE {
namespace {
struct SwiGluOf {
  template <class T>
  __device__ T operator()(T gate, T up) const {
    const float g = float(gate);
    return T(g * sigmoid(g) * float(up));
  }
};

Plan swiglu_tuned(const SwiGlu& p, GpuContext& gpu) {
  using P = SwiGlu;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, SwiGluOf{}, p.n, t[P::y].as<T>(), t[P::gate].as<const T>(), t[P::up].as<const T>());
    };
  });
}
DUET_REGISTER(swiglu_tuned);

// A map_grid(n, kSize), no shared memory. gate, up, dy, dgate, dup: (n). dgate may be gate or dy, dup may be up: a
// thread reads its elements before it writes them.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    swiglu_backward_kernel(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t n) {
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    const auto pack_gate = load_pack<kWidth>(gate + i), pack_up = load_pack<kWidth>(up + i);
    const auto pack_dy = load_pack<kWidth>(dy + i);
    Pack<T, kWidth> of_gate, of_up;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float g = float(pack_gate.at[e]), d = float(pack_dy.at[e]), s = sigmoid(g);
      of_gate.at[e] = T(d * float(pack_up.at[e]) * (s * (1 + g * (1 - s))));
      of_up.at[e] = T(d * (g * s));
    }
    store_pack(dgate + i, of_gate);
    store_pack(dup + i, of_up);
  });
}

Plan swiglu_backward_tuned(const SwiGluBackward& p, GpuContext& gpu) {
  using P = SwiGluBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T *gate = t[P::gate].as<const T>(), *up = t[P::up].as<const T>(), *dy = t[P::dy].as<const T>();
      T *dgate = t[P::dgate].as<T>(), *dup = t[P::dup].as<T>();
      if (aligned16(gate, up, dy, dgate, dup))
        launch(swiglu_backward_kernel<T, kPack<T>>, map_grid(p.n, kPack<T>, stream), gate, up, dy, dgate, dup, p.n);
      else
        launch(swiglu_backward_kernel<T, 1>, map_grid(p.n, 1, stream), gate, up, dy, dgate, dup, p.n);
    };
  });
}
DUET_REGISTER(swiglu_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
