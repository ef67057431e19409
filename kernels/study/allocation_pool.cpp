// SPDX-License-Identifier: Apache-2.0
// study/allocation on a GPU, by cudaMallocAsync and cudaFreeAsync: from the pool of the context, which keeps what is
// given back.
#include "core/cuda/check.h"
#include "core/cuda/gpu_context.h"
#include "core/registration.h"
#include "kernels/study/touch.h"
#include "ops/study/allocation.h"

namespace duet::cuda {
namespace {

Plan study_allocation_pool(const Allocation& p, GpuContext& gpu) {
  return [p, stream = gpu.stream()](Args t) {
    if (p.pages == 0) return;
    void* memory = nullptr;
    const auto bytes = static_cast<size_t>(p.pages * Allocation::kPageBytes);
    DUET_CUDA(cudaMallocAsync(&memory, bytes, stream));
    touch_pages(stream, t[Allocation::x].as<const float>(), memory, t[Allocation::y].as<float>(), p.pages);
    DUET_CUDA(cudaFreeAsync(memory, stream));
  };
}
DUET_REGISTER(study_allocation_pool);  // cuda.pool

}  // namespace
}  // namespace duet::cuda
