// SPDX-License-Identifier: Apache-2.0
// A block copies the part of the image that its outputs need, and the weights, to shared memory.
#include "kernels/study/memory_kind.cuh"

namespace duet::DUET_DEVICE {
namespace {
// As filter_kernel. Shared memory: (12, 36) inputs and 25 weights.
__global__ void __launch_bounds__(kTileX* kTileY)
    shared_filter_kernel(const float* x, const float* weight, float* y, int64_t h, int64_t w) {
  constexpr int kIn = kTileX + kSide - 1, kDown = kTileY + kSide - 1;
  DUET_SHARED(float, in, [kDown][kIn]);
  DUET_SHARED(float, factor, [kSide * kSide]);
  const int64_t across = (w + kTileX - 1) / kTileX, pitch = w + kSide - 1;
  const int64_t i0 = blockIdx.x / across * kTileY, j0 = blockIdx.x % across * kTileX;
  const int thread = static_cast<int>(threadIdx.y) * kTileX + static_cast<int>(threadIdx.x);
  for (int e = thread; e < kDown * kIn; e += kTileX * kTileY) {
    const int64_t i = i0 + e / kIn, j = j0 + e % kIn;
    in[e / kIn][e % kIn] = i < h + kSide - 1 && j < pitch ? x[i * pitch + j] : 0;
  }
  if (thread < kSide * kSide) factor[thread] = weight[thread];
  __syncthreads();
  const int64_t i = i0 + threadIdx.y, j = j0 + threadIdx.x;
  if (i >= h || j >= w) return;
  float sum = 0;
#pragma unroll
  for (int r = 0; r < kSide; ++r)
#pragma unroll
    for (int s = 0; s < kSide; ++s) sum = fmaf(factor[r * kSide + s], in[threadIdx.y + r][threadIdx.x + s], sum);
  y[i * w + j] = sum;
}

Plan study_memory_kind_filter_shared(const MemoryKindFilter& p, GpuContext& gpu) {
  return [p, stream = gpu.stream()](Args t) {
    launch(shared_filter_kernel, filter_grid(p, stream), t[MemoryKindFilter::x].as<const float>(),
           t[MemoryKindFilter::weight].as<const float>(), t[MemoryKindFilter::y].as<float>(), p.h, p.w);
  };
}
DUET_REGISTER(study_memory_kind_filter_shared);
}  // namespace
}  // namespace duet::DUET_DEVICE
