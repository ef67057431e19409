// SPDX-License-Identifier: Apache-2.0
// One thread per element, which computes a Philox block of four numbers and uses one of them.
#include "simt/launch.h"
#include "ops/elementwise/dropout.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, y, mask: (n), offset: (1).
template <class T>
__global__ void dropout_kernel(const T* x, const int32_t* offset, T* y, uint8_t* mask, int64_t n, uint64_t seed,
                               uint64_t threshold, float scale) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const bool keep = dropout_keeps(dropout_index(*offset, i), seed, threshold);
  mask[i] = keep;
  y[i] = keep ? T(float(x[i]) * scale) : T(0.0f);
}

Plan dropout_naive(const Dropout& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, threshold = dropout_threshold(p.p), scale = static_cast<float>(dropout_scale(p.p))](Args t) {
      launch(dropout_kernel<T>, grid, t[Dropout::x].as<const T>(), t[Dropout::offset].as<const int32_t>(),
             t[Dropout::y].as<T>(), t[Dropout::mask].as<uint8_t>(), p.n, static_cast<uint64_t>(p.seed), threshold,
             scale);
    };
  });
}
DUET_REGISTER(dropout_naive);

// As dropout_kernel. dy, mask, dx: (n).
template <class T>
__global__ void dropout_backward_kernel(const T* dy, const uint8_t* mask, T* dx, int64_t n, float scale) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) dx[i] = mask[i] ? T(float(dy[i]) * scale) : T(0.0f);
}

Plan dropout_backward_naive(const DropoutBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, scale = static_cast<float>(dropout_scale(p.p))](Args t) {
      launch(dropout_backward_kernel<T>, grid, t[DropoutBackward::dy].as<const T>(),
             t[DropoutBackward::mask].as<const uint8_t>(), t[DropoutBackward::dx].as<T>(), p.n, scale);
    };
  });
}
DUET_REGISTER(dropout_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
