// SPDX-License-Identifier: Apache-2.0
// Stride 1: packs of 16 bytes (vector.cuh). Other strides: a thread copies kLoads elements, a block's width apart, so
// that each load of a warp touches no cache line twice, and the loads are in flight together.
#include "kernels/vector.cuh"
#include "ops/memory/strided_copy.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kLoads = 8;

struct Same {
  template <class T>
  __device__ T operator()(T x) const {
    return x;
  }
};

// A map_grid(n, kLoads), no shared memory. x: from the first element on that is copied; y: (n).
template <class T>
__global__ void __launch_bounds__(kMapBlock) strided_kernel(const T* x, T* y, int64_t n, int64_t stride) {
  const int64_t first = int64_t{blockIdx.x} * kMapBlock * kLoads + threadIdx.x;
  T values[kLoads];
#pragma unroll
  for (int k = 0; k < kLoads; ++k)
    if (first + k * kMapBlock < n) values[k] = x[(first + k * kMapBlock) * stride];
#pragma unroll
  for (int k = 0; k < kLoads; ++k)
    if (first + k * kMapBlock < n) y[first + k * kMapBlock] = values[k];
}

Plan strided_copy_tuned(const StridedCopy& p, GpuContext& gpu) {
  using P = StridedCopy;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* x = t[P::x].as<const T>() + p.offset;
      T* y = t[P::y].as<T>();
      if (p.stride == 1)
        launch_map(stream, Same{}, p.n, y, x);
      else
        launch(strided_kernel<T>, map_grid(p.n, kLoads, stream), x, y, p.n, p.stride);
    };
  });
}
DUET_REGISTER(strided_copy_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
