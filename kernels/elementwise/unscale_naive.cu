// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order; a thread with an element that is not finite sets the flag, which a first launch
// clears.
#include "simt/launch.h"
#include "ops/elementwise/unscale.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

__global__ void clear_kernel(int32_t* bad) { *bad = 0; }  // one thread

// ceil(n / kThreads) blocks of kThreads, no shared memory. g, y: (n), scale, bad: (1).
template <class T>
__global__ void unscale_kernel(const T* g, const float* scale, float* y, int32_t* bad, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(g[i]);
  if (!(fabsf(v) < INFINITY)) atomicOr(bad, 1);
  y[i] = v / *scale;
}

Plan unscale_naive(const Unscale& p, GpuContext& gpu) {
  using P = Unscale;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      int32_t* bad = t[P::bad].as<int32_t>();
      launch(clear_kernel, Grid{.stream = grid.stream}, bad);
      launch(unscale_kernel<T>, grid, t[P::g].as<const T>(), t[P::scale].as<const float>(), t[P::y].as<float>(), bad,
             p.n);
    };
  });
}
DUET_REGISTER(unscale_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
