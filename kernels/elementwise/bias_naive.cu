// SPDX-License-Identifier: Apache-2.0
// Forward: one thread per element. Backward: one thread per channel adds its elements, in double, so that rounding is
// small for any number of them; with relu, one thread per element masks dy.
#include "simt/launch.h"
#include "ops/elementwise/bias.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// All kernels here have one thread per element or channel and no shared memory. x, y, dy, dx: (outer, c, inner); bias,
// dbias: (c).
Grid grid_of(int64_t threads, const GpuContext& gpu) {
  return {.blocks = ceil_div(threads, kThreads), .threads = kThreads, .stream = gpu.stream()};
}

template <class T>
__global__ void bias_kernel(const T* x, const T* bias, T* y, int64_t n, int64_t c, int64_t inner, bool relu) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float sum = float(x[i]) + float(bias[i / inner % c]);
  y[i] = T(relu ? fmaxf(sum, 0) : sum);
}

Plan bias_naive(const Bias& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, grid = grid_of(p.elements(), gpu)](Args t) {
      launch(bias_kernel<T>, grid, t[Bias::x].as<const T>(), t[Bias::bias].as<const T>(), t[Bias::y].as<T>(),
             p.elements(), p.c, p.inner, p.act == Act::relu);
    };
  });
}
DUET_REGISTER(bias_naive);

// y: null without relu.
template <class T>
__global__ void dbias_kernel(const T* y, const T* dy, T* dbias, int64_t outer, int64_t c, int64_t inner) {
  const int64_t channel = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (channel >= c) return;
  double sum = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = (o * c + channel) * inner, end = i + inner; i < end; ++i)
      if (!y || float(y[i]) > 0) sum += float(dy[i]);
  dbias[channel] = T(static_cast<float>(sum));
}

template <class T>
__global__ void mask_kernel(const T* y, const T* dy, T* dx, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) dx[i] = float(y[i]) > 0 ? dy[i] : T(0.0f);
}

Plan bias_backward_naive(const BiasBackward& p, GpuContext& gpu) {
  using P = BiasBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, channels = grid_of(p.c, gpu), elements = grid_of(p.elements(), gpu)](Args t) {
      const bool relu = p.act == Act::relu;
      const T *y = relu ? t[P::y].as<const T>() : nullptr, *dy = t[P::dy].as<const T>();
      launch(dbias_kernel<T>, channels, y, dy, t[P::dbias].as<T>(), p.outer, p.c, p.inner);
      if (relu) launch(mask_kernel<T>, elements, y, dy, t[P::dx].as<T>(), p.elements());
    };
  });
}
DUET_REGISTER(bias_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
