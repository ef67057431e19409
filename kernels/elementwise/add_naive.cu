// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "simt/launch.h"
#include "ops/elementwise/add.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. a, b, c: (n).
template <class T>
__global__ void add_kernel(const T* a, const T* b, T* c, int64_t n, bool relu) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float sum = float(a[i]) + float(b[i]);
  c[i] = T(relu ? fmaxf(sum, 0) : sum);
}

Plan add_naive(const Add& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(add_kernel<T>, grid, t[Add::a].as<const T>(), t[Add::b].as<const T>(), t[Add::c].as<T>(), p.n,
             p.act == Act::relu);
    };
  });
}
DUET_REGISTER(add_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
