// SPDX-License-Identifier: Apache-2.0
// One thread per element of a replica: it adds that element of all replicas and writes the sum to each.
#include "simt/launch.h"
#include "ops/reduction/all_reduce.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, y: (replicas, n); y may be x.
template <class T>
__global__ void all_reduce_kernel(const T* x, T* y, int64_t replicas, int64_t n, float factor) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int64_t s = 0; s < replicas; ++s) sum += float(x[s * n + i]);
  for (int64_t r = 0; r < replicas; ++r) y[r * n + i] = T(sum * factor);
}

Plan all_reduce_naive(const AllReduce& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const float factor = p.op == ReduceOp::mean ? 1 / static_cast<float>(p.replicas) : 1;
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, factor](Args t) {
      launch(all_reduce_kernel<T>, grid, t[AllReduce::x].as<const T>(), t[AllReduce::y].as<T>(), p.replicas, p.n,
             factor);
    };
  });
}
DUET_REGISTER(all_reduce_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
