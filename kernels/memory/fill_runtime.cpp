// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's own memset.
#include "core/cuda/gpu_context.h"
#include "core/registration.h"
#include "ops/memory/fill.h"

namespace duet::cuda {
namespace {
Plan fill_runtime(const FillValue& p, GpuContext& gpu) {
  if (round_to(p.dtype, p.value) != 0) return Unsupported{"a value other than 0: memset writes bytes"};
  return [bytes = p.n * size_of(p.dtype), &gpu](Args t) { gpu.fill_bytes(t[FillValue::y].data, 0, bytes); };
}
DUET_REGISTER(fill_runtime);  // cuda.runtime
}  // namespace
}  // namespace duet::cuda
