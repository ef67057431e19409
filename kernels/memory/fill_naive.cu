// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp writes runs of memory.
#include "simt/launch.h"
#include "ops/memory/fill.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. y: (n).
template <class T>
__global__ void fill_kernel(T* y, float value, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) y[i] = T(value);
}

Plan fill_naive(const FillValue& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    const auto value = static_cast<float>(round_to(p.dtype, p.value));
    return [p, grid, value](Args t) { launch(fill_kernel<T>, grid, t[FillValue::y].as<T>(), value, p.n); };
  });
}
DUET_REGISTER(fill_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
