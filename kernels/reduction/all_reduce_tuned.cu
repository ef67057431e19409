// SPDX-License-Identifier: Apache-2.0
// One thread per pack of a replica: it adds that pack of all replicas, several loads under way at a time, and writes
// the sum to each. Every byte is moved once, by accesses of 16 bytes.
#include "kernels/vector.cuh"
#include "ops/reduction/all_reduce.h"

namespace duet::DUET_DEVICE {
namespace {

// A map_grid(n, kSize), no shared memory. x, y: (replicas, n); y may be x: a thread reads its elements of all replicas
// before it writes them. kSize > 1: replicas consist of whole packs, aligned.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    all_reduce_kernel(const T* x, T* y, int64_t replicas, int64_t n, float factor) {
  const int64_t i = (int64_t{blockIdx.x} * kMapBlock + threadIdx.x) * kSize;
  if (i >= n) return;
  float sum[kSize] = {};
#pragma unroll 4
  for (int64_t s = 0; s < replicas; ++s) {
    const auto v = load_pack<kSize>(x + s * n + i);
#pragma unroll
    for (int e = 0; e < kSize; ++e) sum[e] += float(v.at[e]);
  }
  Pack<T, kSize> out;
#pragma unroll
  for (int e = 0; e < kSize; ++e) out.at[e] = T(sum[e] * factor);
#pragma unroll 4
  for (int64_t r = 0; r < replicas; ++r) store_pack(y + r * n + i, out);
}

Plan all_reduce_tuned(const AllReduce& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const float factor = p.op == ReduceOp::mean ? 1 / static_cast<float>(p.replicas) : 1;
    return [p, factor, stream = gpu.stream()](Args t) {
      const T* x = t[AllReduce::x].as<const T>();
      T* y = t[AllReduce::y].as<T>();
      if (p.n % kPack<T> == 0 && aligned16(x, y))
        launch(all_reduce_kernel<T, kPack<T>>, map_grid(p.n, kPack<T>, stream), x, y, p.replicas, p.n, factor);
      else
        launch(all_reduce_kernel<T, 1>, map_grid(p.n, 1, stream), x, y, p.replicas, p.n, factor);
    };
  });
}
DUET_REGISTER(all_reduce_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
