// SPDX-License-Identifier: Apache-2.0
// The table by ordinary loads, which the compiler may not turn into others.
#include "kernels/study/memory_kind.cuh"

namespace duet::DUET_DEVICE {
namespace {
Plan study_memory_kind_lookup_global(const MemoryKindLookup& p, GpuContext& gpu) {
  return lookup_through<Global>(p, gpu);
}
DUET_REGISTER(study_memory_kind_lookup_global);
}  // namespace
}  // namespace duet::DUET_DEVICE
