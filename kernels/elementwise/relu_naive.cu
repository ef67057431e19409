// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "simt/launch.h"
#include "ops/elementwise/relu.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, y: (n).
template <class T>
__global__ void relu_kernel(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = T(fmaxf(float(x[i]), 0));
}

Plan relu_naive(const Relu& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) { launch(relu_kernel<T>, grid, t[Relu::x].as<const T>(), t[Relu::y].as<T>(), p.n); };
  });
}
DUET_REGISTER(relu_naive);

// As relu_kernel. x, dy, dx: (n).
template <class T>
__global__ void relu_backward_kernel(const T* x, const T* dy, T* dx, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) dx[i] = float(x[i]) > 0 ? dy[i] : T(0.0f);
}

Plan relu_backward_naive(const ReluBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(relu_backward_kernel<T>, grid, t[ReluBackward::x].as<const T>(), t[ReluBackward::dy].as<const T>(),
             t[ReluBackward::dx].as<T>(), p.n);
    };
  });
}
DUET_REGISTER(relu_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
