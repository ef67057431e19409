// SPDX-License-Identifier: Apache-2.0
// Each block copies the table to shared memory and looks up several elements per thread.
#include "kernels/study/memory_kind.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int64_t kMaxShared = 48 << 10;  // bytes of the table
constexpr int kPerThread = 16;            // lookups, which share the copy of the table

// ceil(n / (kLookupBlock * kPerThread)) blocks. Shared memory: the table. table: (size), index, y: (n).
__global__ void __launch_bounds__(kLookupBlock)
    shared_lookup_kernel(const float* table, const int32_t* index, float* y, int64_t n, int64_t size) {
  DUET_DYN_SHARED(float, copy);
  for (int64_t e = threadIdx.x; e < size; e += kLookupBlock) copy[e] = table[e];
  __syncthreads();
  const int64_t first = int64_t{blockIdx.x} * kLookupBlock * kPerThread;
#pragma unroll 4
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t i = first + k * kLookupBlock + threadIdx.x;
    if (i < n) y[i] = copy[index[i]];
  }
}

Plan study_memory_kind_lookup_shared(const MemoryKindLookup& p, GpuContext& gpu) {
  const int64_t bytes = p.size * int64_t{sizeof(float)};
  if (bytes > kMaxShared) return Unsupported{"a table of more than 48 KiB"};
  const Grid grid{.blocks = ceil_div(p.n, kLookupBlock * kPerThread),
                  .threads = kLookupBlock,
                  .shared_bytes = bytes,
                  .stream = gpu.stream()};
  return [p, grid](Args t) {
    launch(shared_lookup_kernel, grid, t[MemoryKindLookup::table].as<const float>(),
           t[MemoryKindLookup::index].as<const int32_t>(), t[MemoryKindLookup::y].as<float>(), p.n, p.size);
  };
}
DUET_REGISTER(study_memory_kind_lookup_shared);
}  // namespace
}  // namespace duet::DUET_DEVICE
