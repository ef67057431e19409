// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes one run of memory.
#include "simt/launch.h"
#include "ops/memory/copy.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, y: (n).
template <class T>
__global__ void copy_kernel(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = x[i];
}

Plan copy_naive(const Copy& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) { launch(copy_kernel<T>, grid, t[Copy::x].as<const T>(), t[Copy::y].as<T>(), p.n); };
  });
}
DUET_REGISTER(copy_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
