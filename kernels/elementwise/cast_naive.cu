// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "simt/launch.h"
#include "ops/elementwise/cast.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, y: (n).
template <class From, class To>
__global__ void cast_kernel(const From* x, To* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = To(float(x[i]));
}

Plan cast_naive(const Cast& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class From>() -> Plan {
    return for_float(p.to, [&]<class To>() -> Plan {
      const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
      return [p, grid](Args t) {
        launch(cast_kernel<From, To>, grid, t[Cast::x].as<const From>(), t[Cast::y].as<To>(), p.n);
      };
    });
  });
}
DUET_REGISTER(cast_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
