// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "kernels/activation.cuh"
#include "simt/launch.h"
#include "ops/elementwise/gelu.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(n / kThreads) blocks of kThreads, no shared memory. x, y, dy, dx: (n).
template <class T>
__global__ void gelu_kernel(const T* x, T* y, int64_t n, bool tanh_form) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(x[i]);
  y[i] = T(tanh_form ? gelu_tanh(v) : gelu_erf(v));
}

Plan gelu_naive(const Gelu& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(gelu_kernel<T>, grid, t[Gelu::x].as<const T>(), t[Gelu::y].as<T>(), p.n, p.form == GeluForm::tanh);
    };
  });
}
DUET_REGISTER(gelu_naive);

template <class T>
__global__ void gelu_backward_kernel(const T* x, const T* dy, T* dx, int64_t n, bool tanh_form) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(x[i]), g = float(dy[i]);
  dx[i] = T(g * (tanh_form ? gelu_tanh_slope(v) : gelu_erf_slope(v)));
}

Plan gelu_backward_naive(const GeluBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(gelu_backward_kernel<T>, grid, t[GeluBackward::x].as<const T>(), t[GeluBackward::dy].as<const T>(),
             t[GeluBackward::dx].as<T>(), p.n, p.form == GeluForm::tanh);
    };
  });
}
DUET_REGISTER(gelu_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
