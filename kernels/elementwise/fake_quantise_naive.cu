// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory. A thread finds its channel by two
// divisions.
#include "kernels/elementwise/channels.cuh"
#include "ops/elementwise/fake_quantise.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(n / kThreads) blocks of kThreads, no shared memory. x, y, dy, dx: (outer, c, inner) of n elements;
// scale, zero: (c). ops/elementwise/quantise_formula.h defines the level.
template <class T>
__global__ void fake_quantise_kernel(const T* x, const float* scale, const int32_t* zero, T* y, int64_t n, int64_t c,
                                     int64_t inner, int lo, int hi) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t channel = i / inner % c;
  const int z = clamp_level(zero[channel], lo, hi);
  const int level = clamp_level(unclamped_level(float(x[i]), scale[channel], z), lo, hi);
  y[i] = T(static_cast<float>(level - z) * scale[channel]);
}

Plan fake_quantise_naive(const FakeQuantise& p, GpuContext& gpu) {
  using P = FakeQuantise;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(fake_quantise_kernel<T>, grid, t[P::x].as<const T>(), t[P::scale].as<const float>(),
             t[P::zero].as<const int32_t>(), t[P::y].as<T>(), p.elements(), p.c, p.inner, static_cast<int>(p.lo),
             static_cast<int>(p.hi));
    };
  });
}
DUET_REGISTER(fake_quantise_naive);

template <class T>
__global__ void fake_quantise_backward_kernel(const T* x, const float* scale, const int32_t* zero, const T* dy, T* dx,
                                              int64_t n, int64_t c, int64_t inner, int lo, int hi) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t channel = i / inner % c;
  const int level = unclamped_level(float(x[i]), scale[channel], clamp_level(zero[channel], lo, hi));
  dx[i] = level >= lo && level <= hi ? dy[i] : T(0.0f);
}

Plan fake_quantise_backward_naive(const FakeQuantiseBackward& p, GpuContext& gpu) {
  using P = FakeQuantiseBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(fake_quantise_backward_kernel<T>, grid, t[P::x].as<const T>(), t[P::scale].as<const float>(),
             t[P::zero].as<const int32_t>(), t[P::dy].as<const T>(), t[P::dx].as<T>(), p.elements(), p.c, p.inner,
             static_cast<int>(p.lo), static_cast<int>(p.hi));
    };
  });
}
DUET_REGISTER(fake_quantise_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
