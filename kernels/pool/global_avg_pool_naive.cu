// SPDX-License-Identifier: Apache-2.0
// Forward: one thread per element of y, which adds its plane in double. Backward: one thread per element of dx.
#include "simt/launch.h"
#include "ops/pool/global_avg_pool.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(outputs / kThreads) blocks of kThreads, no shared memory. x: (images, pixels, depth), y: (images, depth).
template <class T>
__global__ void mean_kernel(const T* x, T* y, int64_t outputs, int64_t pixels, int64_t depth) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= outputs) return;
  x += i / depth * pixels * depth + i % depth;
  double sum = 0;
  for (int64_t k = 0; k < pixels; ++k) sum += float(x[k * depth]);
  y[i] = T(pixels > 0 ? static_cast<float>(sum / static_cast<double>(pixels)) : 0.0f);
}

Plan global_avg_pool_naive(const GlobalAvgPool& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t outputs = p.n * p.c;
    const Grid grid{.blocks = ceil_div(outputs, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, outputs](Args t) {
      launch(mean_kernel<T>, grid, t[GlobalAvgPool::x].as<const T>(), t[GlobalAvgPool::y].as<T>(), outputs, p.pixels(),
             p.depth());
    };
  });
}
DUET_REGISTER(global_avg_pool_naive);

// ceil(elements / kThreads) blocks of kThreads, no shared memory. dy: (images, depth), dx: (images, pixels, depth).
template <class T>
__global__ void mean_backward_kernel(const T* dy, T* dx, int64_t elements, int64_t pixels, int64_t depth) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < elements) dx[i] = T(float(dy[i / depth / pixels * depth + i % depth]) / static_cast<float>(pixels));
}

Plan global_avg_pool_backward_naive(const GlobalAvgPoolBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.n * p.c * p.h * p.w;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(mean_backward_kernel<T>, grid, t[GlobalAvgPoolBackward::dy].as<const T>(),
             t[GlobalAvgPoolBackward::dx].as<T>(), elements, p.h * p.w, p.forward().depth());
    };
  });
}
DUET_REGISTER(global_avg_pool_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
