// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory. A thread finds its channel by two
// divisions.
#include "kernels/elementwise/channels.cuh"
#include "ops/elementwise/quantise.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(n / kThreads) blocks of kThreads, no shared memory. x, q: (outer, c, inner) of n elements; scale,
// zero: (c). ops/elementwise/quantise_formula.h defines the level.
template <class T>
__global__ void quantise_kernel(const T* x, const float* scale, const int32_t* zero, int8_t* q, int64_t n, int64_t c,
                                int64_t inner, int lo, int hi) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t channel = i / inner % c;
  const int z = clamp_level(zero[channel], lo, hi);
  q[i] = static_cast<int8_t>(clamp_level(unclamped_level(float(x[i]), scale[channel], z), lo, hi));
}

Plan quantise_naive(const Quantise& p, GpuContext& gpu) {
  using P = Quantise;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(quantise_kernel<T>, grid, t[P::x].as<const T>(), t[P::scale].as<const float>(),
             t[P::zero].as<const int32_t>(), t[P::q].as<int8_t>(), p.elements(), p.c, p.inner, static_cast<int>(p.lo),
             static_cast<int>(p.hi));
    };
  });
}
DUET_REGISTER(quantise_naive);

template <class T>
__global__ void dequantise_kernel(const int8_t* q, const float* scale, const int32_t* zero, T* x, int64_t n, int64_t c,
                                  int64_t inner) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t channel = i / inner % c;
  x[i] = T(static_cast<float>(q[i] - clamp_level(zero[channel], -128, 127)) * scale[channel]);
}

Plan dequantise_naive(const Dequantise& p, GpuContext& gpu) {
  using P = Dequantise;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.elements(), kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(dequantise_kernel<T>, grid, t[P::q].as<const int8_t>(), t[P::scale].as<const float>(),
             t[P::zero].as<const int32_t>(), t[P::x].as<T>(), p.elements(), p.c, p.inner);
    };
  });
}
DUET_REGISTER(dequantise_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
