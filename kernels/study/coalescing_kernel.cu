// SPDX-License-Identifier: Apache-2.0
// One access per thread: neighbouring threads read `stride` accesses apart and write neighbours.
#include "kernels/vector.cuh"
#include "ops/study/coalescing.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(count / kThreads) blocks. x: the first access; y: (count) packs of kSize elements. kWide: they are aligned to a
// pack, which one access reads or writes; else its elements follow each other.
template <int kSize, bool kWide>
__global__ void __launch_bounds__(kThreads) strides_kernel(const float* x, float* y, int64_t count, int64_t stride) {
  const int64_t g = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (g >= count) return;
  x += g * stride * kSize;
  y += g * kSize;
  if constexpr (kWide) {
    store_pack(y, load_pack<kSize>(x));
  } else {
#pragma unroll
    for (int e = 0; e < kSize; ++e) y[e] = x[e];
  }
}

template <int kSize>
Plan strides(const Coalescing& p, cudaStream_t stream) {
  return [p, stream](Args t) {
    const float* x = t[Coalescing::x].as<const float>() + p.offset;
    float* y = t[Coalescing::y].as<float>();
    const int64_t count = p.n / kSize;
    auto kernel = strides_kernel<kSize, true>;
    if constexpr (kSize > 1)
      if ((reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % (kSize * sizeof(float)) != 0)
        kernel = strides_kernel<kSize, false>;
    launch(kernel, Grid{.blocks = ceil_div(count, kThreads), .threads = kThreads, .stream = stream}, x, y, count,
           p.stride);
  };
}

Plan study_coalescing_kernel(const Coalescing& p, GpuContext& gpu) {
  return p.width == 16  ? strides<4>(p, gpu.stream())
         : p.width == 8 ? strides<2>(p, gpu.stream())
                        : strides<1>(p, gpu.stream());
}
DUET_REGISTER(study_coalescing_kernel);
}  // namespace
}  // namespace duet::DUET_DEVICE
