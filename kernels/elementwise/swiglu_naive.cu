// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "kernels/activation.cuh"
#include "simt/launch.h"
#include "ops/elementwise/swiglu.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(n / kThreads) blocks of kThreads, no shared memory. gate, up, y, dy, dgate, dup: (n).
template <class T>
__global__ void swiglu_kernel(const T* gate, const T* up, T* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float g = float(gate[i]);
  y[i] = T(g * sigmoid(g) * float(up[i]));
}

Plan swiglu_naive(const SwiGlu& p, GpuContext& gpu) {
  using P = SwiGlu;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(swiglu_kernel<T>, grid, t[P::gate].as<const T>(), t[P::up].as<const T>(), t[P::y].as<T>(), p.n);
    };
  });
}
DUET_REGISTER(swiglu_naive);

template <class T>
__global__ void swiglu_backward_kernel(const T* gate, const T* up, const T* dy, T* dgate, T* dup, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float g = float(gate[i]), u = float(up[i]), d = float(dy[i]), s = sigmoid(g);
  dgate[i] = T(d * u * (s * (1 + g * (1 - s))));
  dup[i] = T(d * (g * s));
}

Plan swiglu_backward_naive(const SwiGluBackward& p, GpuContext& gpu) {
  using P = SwiGluBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(swiglu_backward_kernel<T>, grid, t[P::gate].as<const T>(), t[P::up].as<const T>(), t[P::dy].as<const T>(),
             t[P::dgate].as<T>(), t[P::dup].as<T>(), p.n);
    };
  });
}
DUET_REGISTER(swiglu_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
