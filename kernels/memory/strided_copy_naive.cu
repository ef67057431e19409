// SPDX-License-Identifier: Apache-2.0
// One thread per element of y, in order: a warp writes a run of memory, and reads as many cache lines as its elements
// of x lie on.
#include "simt/launch.h"
#include "ops/memory/strided_copy.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. x: from the first element on that is copied; y: (n).
template <class T>
__global__ void strided_copy_kernel(const T* x, T* y, int64_t n, int64_t stride) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = x[i * stride];
}

Plan strided_copy_naive(const StridedCopy& p, GpuContext& gpu) {
  using P = StridedCopy;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(strided_copy_kernel<T>, grid, t[P::x].as<const T>() + p.offset, t[P::y].as<T>(), p.n, p.stride);
    };
  });
}
DUET_REGISTER(strided_copy_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
