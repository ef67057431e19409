// SPDX-License-Identifier: Apache-2.0
#include "core/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/cuda/check.h"
#include "core/cuda/gpu_context.h"
#include "core/cuda/managed.h"
#include "core/error.h"
#include "core/gpu.h"

namespace duet {
namespace cuda {
namespace {

constexpr size_t kPage = 4096;

class HostMemoryContext final : public Context {
 public:
  HostMemoryContext(GpuContext& gpu, HostMemory kind) : gpu_(gpu), kind_(kind) {}

  Device device() const override { return Device::cpu; }
  std::string describe() const override { return "host memory beside " + gpu_.describe(); }
  void* allocate(int64_t bytes) override {
    require_usable_gpu();
    const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1) + int64_t{kPage} - 1) / kPage * kPage;
    void* memory = nullptr;
    cudaError_t status = cudaSuccess;
    switch (kind_) {
      case HostMemory::pinned:
        status = cudaMallocHost(&memory, size);
        break;
      case HostMemory::mapped:
        status = cudaHostAlloc(&memory, size, cudaHostAllocMapped);
        break;
      case HostMemory::managed:
      case HostMemory::managed_on_device:
        status = cudaMallocManaged(&memory, size, cudaMemAttachGlobal);
        break;
      case HostMemory::none:
      case HostMemory::pageable:
        memory = std::aligned_alloc(kPage, size);
        if (!memory) status = cudaErrorMemoryAllocation;
    }
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error("no room for {} bytes of host memory", bytes);
    }
    DUET_CUDA(status);
    return memory;
  }
  void release(void* memory, int64_t) noexcept override {
    if (!memory) return;
    if (kind_ >= HostMemory::managed)
      DUET_CUDA_LOG(cudaFree(memory));
    else if (kind_ == HostMemory::pageable)
      std::free(memory);
    else
      DUET_CUDA_LOG(cudaFreeHost(memory));
  }
  void fill_bytes(void* to, uint8_t value, int64_t bytes) override {
    synchronize();
    if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
  }
  void upload(void* to, const void* from, int64_t bytes) override {
    synchronize();
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void download(void* to, const void* from, int64_t bytes) override { upload(to, from, bytes); }
  void copy_within(void* to, const void* from, int64_t bytes) override {
    upload(to, from, bytes);
    if (kind_ != HostMemory::managed_on_device || bytes == 0) return;
    prefetch_managed(to, bytes, true, gpu_.stream());
    synchronize();
  }
  void synchronize() override { gpu_.synchronize(); }
  void evict(const void*, int64_t) override {}  // of a GPU all caches are emptied as a whole

 private:
  GpuContext& gpu_;
  HostMemory kind_;
};

}  // namespace

void prefetch_managed(const void* memory, int64_t bytes, bool to_device, cudaStream_t stream) {
  int device = 0;
  DUET_CUDA(cudaGetDevice(&device));
#if CUDART_VERSION >= 13000
  const cudaMemLocation to{to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost, to_device ? device : 0};
  DUET_CUDA(cudaMemPrefetchAsync(memory, static_cast<size_t>(bytes), to, 0, stream));
#else
  DUET_CUDA(cudaMemPrefetchAsync(memory, static_cast<size_t>(bytes), to_device ? device : cudaCpuDeviceId, stream));
#endif
}

}  // namespace cuda

std::unique_ptr<Context> open_host_memory(Context& gpu, HostMemory kind) {
  auto* const context = dynamic_cast<cuda::GpuContext*>(&gpu);
  if (!context) throw Error("{} is no GPU, which host memory is for", gpu.describe());
  return std::make_unique<cuda::HostMemoryContext>(*context, kind);
}

}  // namespace duet
