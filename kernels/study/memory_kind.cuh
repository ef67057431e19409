// SPDX-License-Identifier: Apache-2.0
// The kernels of the studies of kinds of memory. What differs between them is how a weight, an input or an element of
// the table is read: by the operator [] of a small struct that the kernel gets by value. Files named by the kind
// instantiate them.
#pragma once
#include "ops/study/memory_kind.h"
#include "simt/cached_load.h"
#include "simt/launch.h"

namespace duet::DUET_DEVICE {

struct Global {
  const float* p;
  __device__ float operator[](int64_t i) const { return cached_load(p + i); }
};
struct ReadOnly {  // through the read-only path
  const float* p;
  __device__ float operator[](int64_t i) const { return __ldg(p + i); }
};

inline constexpr int kTileX = 32, kTileY = 8;          // outputs and threads of a block
inline constexpr int kSide = MemoryKindFilter::kSide;  // of the filter

// One block of (32, 8) per 32 columns and 8 rows of y, in order along w, then h. x: (h + 4, w + 4), weight: (5, 5), y:
// (h, w).
template <class Image, class Weights>
__global__ void __launch_bounds__(kTileX* kTileY)
    filter_kernel(Image x, Weights weight, float* y, int64_t h, int64_t w) {
  const int64_t across = (w + kTileX - 1) / kTileX, pitch = w + kSide - 1;
  const int64_t i = blockIdx.x / across * kTileY + threadIdx.y, j = blockIdx.x % across * kTileX + threadIdx.x;
  if (i >= h || j >= w) return;
  float sum = 0;
#pragma unroll
  for (int r = 0; r < kSide; ++r)
#pragma unroll
    for (int s = 0; s < kSide; ++s) sum = fmaf(weight[r * kSide + s], x[(i + r) * pitch + j + s], sum);
  y[i * w + j] = sum;
}

inline Grid filter_grid(const MemoryKindFilter& p, cudaStream_t stream) {
  return {.blocks = ceil_div(p.h, kTileY) * ceil_div(p.w, kTileX), .threads = {kTileX, kTileY}, .stream = stream};
}

// Both x and weight through Read.
template <class Read>
Plan filter_through(const MemoryKindFilter& p, GpuContext& gpu) {
  return [p, stream = gpu.stream()](Args t) {
    const Read x{t[MemoryKindFilter::x].as<const float>()}, weight{t[MemoryKindFilter::weight].as<const float>()};
    launch(filter_kernel<Read, Read>, filter_grid(p, stream), x, weight, t[MemoryKindFilter::y].as<float>(), p.h, p.w);
  };
}

inline constexpr int kLookupBlock = 256;  // threads

// ceil(n / kLookupBlock) blocks, one lookup per thread. table: (size), index, y: (n).
template <class Table>
__global__ void __launch_bounds__(kLookupBlock) lookup_kernel(Table table, const int32_t* index, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kLookupBlock + threadIdx.x;
  if (i < n) y[i] = table[index[i]];
}

template <class Table>
void launch_lookup(const MemoryKindLookup& p, cudaStream_t stream, const Table& table, Args t) {
  const Grid grid{.blocks = ceil_div(p.n, kLookupBlock), .threads = kLookupBlock, .stream = stream};
  launch(lookup_kernel<Table>, grid, table, t[MemoryKindLookup::index].as<const int32_t>(),
         t[MemoryKindLookup::y].as<float>(), p.n);
}

template <class Read>
Plan lookup_through(const MemoryKindLookup& p, GpuContext& gpu) {
  return [p, stream = gpu.stream()](Args t) {
    launch_lookup(p, stream, Read{t[MemoryKindLookup::table].as<const float>()}, t);
  };
}

}  // namespace duet::DUET_DEVICE
