// SPDX-License-Identifier: Apache-2.0
// Image and weights by ordinary loads, which the compiler may not turn into others.
#include "kernels/study/memory_kind.cuh"

namespace duet::DUET_DEVICE {
namespace {
Plan study_memory_kind_filter_global(const MemoryKindFilter& p, GpuContext& gpu) {
  return filter_through<Global>(p, gpu);
}
DUET_REGISTER(study_memory_kind_filter_global);
}  // namespace
}  // namespace duet::DUET_DEVICE
