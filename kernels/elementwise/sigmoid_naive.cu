// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "kernels/activation.cuh"
#include "simt/launch.h"
#include "ops/elementwise/sigmoid.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(n / kThreads) blocks of kThreads, no shared memory. x, y, dy, dx: (n).
template <class T>
__global__ void sigmoid_kernel(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(x[i]);
  y[i] = T(sigmoid(v));
}

Plan sigmoid_naive(const Sigmoid& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return
        [p, grid](Args t) { launch(sigmoid_kernel<T>, grid, t[Sigmoid::x].as<const T>(), t[Sigmoid::y].as<T>(), p.n); };
  });
}
DUET_REGISTER(sigmoid_naive);

template <class T>
__global__ void sigmoid_backward_kernel(const T* y, const T* dy, T* dx, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(y[i]), g = float(dy[i]);
  dx[i] = T(g * v * (1 - v));
}

Plan sigmoid_backward_naive(const SigmoidBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(sigmoid_backward_kernel<T>, grid, t[SigmoidBackward::y].as<const T>(),
             t[SigmoidBackward::dy].as<const T>(), t[SigmoidBackward::dx].as<T>(), p.n);
    };
  });
}
DUET_REGISTER(sigmoid_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
