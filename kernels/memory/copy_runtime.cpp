// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's own copy, device to device.
#include "core/cuda/gpu_context.h"
#include "core/registration.h"
#include "ops/memory/copy.h"

namespace duet::cuda {
namespace {
Plan copy_runtime(const Copy& p, GpuContext& gpu) {
  return [bytes = p.n * size_of(p.dtype), &gpu](Args t) { gpu.copy_within(t[Copy::y].data, t[Copy::x].data, bytes); };
}
DUET_REGISTER(copy_runtime);  // cuda.runtime
}  // namespace
}  // namespace duet::cuda
