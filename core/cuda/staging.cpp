// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/staging.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstring>

namespace duet::cuda {
namespace {
constexpr int64_t kMinBytes = int64_t{8} << 20, kChunk = int64_t{16} << 20, kTask = int64_t{1} << 20;

void copy_on_all_threads(void* to, const void* from, int64_t bytes) {
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, bytes, kTask), [&](const auto& r) {
    std::memcpy(static_cast<char*>(to) + r.begin(), static_cast<const char*>(from) + r.begin(),
                static_cast<size_t>(r.size()));
  });
}

// The bytes of a chunk of `bytes`.
int64_t size_of_chunk(int64_t chunk, int64_t bytes) { return std::min(kChunk, bytes - chunk * kChunk); }
}  // namespace

bool Staging::helps(const void* host, int64_t bytes) {
  if (bytes < kMinBytes || refused_) return false;
  cudaPointerAttributes attributes{};
  DUET_CUDA(cudaPointerGetAttributes(&attributes, host));
  if (attributes.type != cudaMemoryTypeUnregistered) return false;
  for (Buffer& b : buffers_) {
    if (b.memory.get()) continue;
    const cudaError_t status = cudaMallocHost(b.memory.out(), static_cast<size_t>(kChunk));
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      refused_ = true;
      return false;
    }
    DUET_CUDA(status);
    b.used = make_event(cudaEventDisableTiming);
  }
  return true;
}

void Staging::download(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
  const auto take = [&](int64_t chunk) {
    const Buffer& b = buffer(chunk);
    DUET_CUDA(cudaEventSynchronize(b.used.get()));
    copy_on_all_threads(static_cast<char*>(to) + chunk * kChunk, b.memory.get(), size_of_chunk(chunk, bytes));
  };
  int64_t chunk = 0;
  for (; chunk * kChunk < bytes; ++chunk) {
    const Buffer& b = buffer(chunk);
    DUET_CUDA(cudaMemcpyAsync(b.memory.get(), static_cast<const char*>(from) + chunk * kChunk,
                              static_cast<size_t>(size_of_chunk(chunk, bytes)), cudaMemcpyDeviceToHost, stream));
    DUET_CUDA(cudaEventRecord(b.used.get(), stream));
    if (chunk > 0) take(chunk - 1);
  }
  if (chunk > 0) take(chunk - 1);
}

void Staging::upload(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
  for (int64_t chunk = 0; chunk * kChunk < bytes; ++chunk) {
    const Buffer& b = buffer(chunk);
    const auto size = size_of_chunk(chunk, bytes);
    DUET_CUDA(cudaEventSynchronize(b.used.get()));  // at once where it was never recorded
    copy_on_all_threads(b.memory.get(), static_cast<const char*>(from) + chunk * kChunk, size);
    DUET_CUDA(cudaMemcpyAsync(static_cast<char*>(to) + chunk * kChunk, b.memory.get(), static_cast<size_t>(size),
                              cudaMemcpyHostToDevice, stream));
    DUET_CUDA(cudaEventRecord(b.used.get(), stream));
  }
}

}  // namespace duet::cuda
