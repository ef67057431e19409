// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "simt/launch.h"
#include "ops/elementwise/axpy.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, y: (n).
template <class T>
__global__ void axpy_kernel(const T* x, T* y, int64_t n, float alpha) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = T(fmaf(alpha, float(x[i]), float(y[i])));
}

Plan axpy_naive(const Axpy& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      const auto alpha = static_cast<float>(p.alpha);
      if (alpha == 0) return;
      launch(axpy_kernel<T>, grid, t[Axpy::x].as<const T>(), t[Axpy::y].as<T>(), p.n, alpha);
    };
  });
}
DUET_REGISTER(axpy_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
