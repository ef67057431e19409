// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "simt/launch.h"
#include "ops/elementwise/tanh.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(n / kThreads) blocks of kThreads, no shared memory. x, y, dy, dx: (n).
template <class T>
__global__ void tanh_kernel(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(x[i]);
  y[i] = T(tanhf(v));
}

Plan tanh_naive(const Tanh& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) { launch(tanh_kernel<T>, grid, t[Tanh::x].as<const T>(), t[Tanh::y].as<T>(), p.n); };
  });
}
DUET_REGISTER(tanh_naive);

template <class T>
__global__ void tanh_backward_kernel(const T* y, const T* dy, T* dx, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(y[i]), g = float(dy[i]);
  dx[i] = T(g * (1 - v * v));
}

Plan tanh_backward_naive(const TanhBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(tanh_backward_kernel<T>, grid, t[TanhBackward::y].as<const T>(), t[TanhBackward::dy].as<const T>(),
             t[TanhBackward::dx].as<T>(), p.n);
    };
  });
}
DUET_REGISTER(tanh_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
