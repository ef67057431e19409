// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's copies and its requests to move pages.
#include <cstring>

#include "core/cuda/check.h"
#include "core/cuda/gpu_context.h"
#include "core/cuda/managed.h"
#include "core/registration.h"
#include "ops/study/transfer.h"

namespace duet::cuda {
namespace {

cudaMemcpyKind kind_of(Transfer::Direction direction) {
  return direction == Transfer::Direction::h2d   ? cudaMemcpyHostToDevice
         : direction == Transfer::Direction::d2h ? cudaMemcpyDeviceToHost
                                                 : cudaMemcpyDeviceToDevice;
}

Plan study_transfer_runtime(const Transfer& p, GpuContext& gpu) {
  const int64_t bytes = p.n * size_of(p.dtype);
  const bool up = p.direction == Transfer::Direction::h2d;
  if (p.memory == Transfer::Memory::mapped || (p.memory == Transfer::Memory::managed && up))
    return Unsupported{"a kernel makes this transfer: cuda.kernel"};
  if (p.memory <= Transfer::Memory::pinned)
    return [bytes, kind = kind_of(p.direction), async = p.async, &gpu](Args t) {
      if (bytes == 0) return;
      DUET_CUDA(
          cudaMemcpyAsync(t[Transfer::y].data, t[Transfer::x].data, static_cast<size_t>(bytes), kind, gpu.stream()));
      if (!async && kind != cudaMemcpyDeviceToDevice) gpu.synchronize();
    };
  if (up)  // the pages move to the device; then a copy within it
    return [bytes, &gpu](Args t) {
      if (bytes == 0) return;
      prefetch_managed(t[Transfer::x].data, bytes, true, gpu.stream());
      DUET_CUDA(cudaMemcpyAsync(t[Transfer::y].data, t[Transfer::x].data, static_cast<size_t>(bytes), cudaMemcpyDefault,
                                gpu.stream()));
    };
  // The pages of x move to the host, asked for at once or by the copy's own touches.
  return [bytes, ask = p.memory == Transfer::Memory::prefetched, &gpu](Args t) {
    if (bytes == 0) return;
    if (ask) prefetch_managed(t[Transfer::x].data, bytes, false, gpu.stream());
    gpu.synchronize();
    std::memcpy(t[Transfer::y].data, t[Transfer::x].data, static_cast<size_t>(bytes));
  };
}
DUET_REGISTER(study_transfer_runtime);  // cuda.runtime

}  // namespace
}  // namespace duet::cuda
