// SPDX-License-Identifier: Apache-2.0
// study/allocation on a GPU, by cudaMalloc and cudaFree, which waits for the device.
#include "core/cuda/check.h"
#include "core/cuda/gpu_context.h"
#include "core/registration.h"
#include "kernels/study/touch.h"
#include "ops/study/allocation.h"

namespace duet::cuda {
namespace {

Plan study_allocation_malloc(const Allocation& p, GpuContext& gpu) {
  return [p, stream = gpu.stream()](Args t) {
    if (p.pages == 0) return;
    void* memory = nullptr;
    const auto bytes = static_cast<size_t>(p.pages * Allocation::kPageBytes);
    DUET_CUDA(cudaMalloc(&memory, bytes));
    touch_pages(stream, t[Allocation::x].as<const float>(), memory, t[Allocation::y].as<float>(), p.pages);
    DUET_CUDA(cudaFree(memory));
  };
}
DUET_REGISTER(study_allocation_malloc);  // cuda.malloc

}  // namespace
}  // namespace duet::cuda
