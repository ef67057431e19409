// SPDX-License-Identifier: Apache-2.0
// The table by loads that say that nothing writes the data meanwhile.
#include "kernels/study/memory_kind.cuh"

namespace duet::DUET_DEVICE {
namespace {
Plan study_memory_kind_lookup_readonly(const MemoryKindLookup& p, GpuContext& gpu) {
  return lookup_through<ReadOnly>(p, gpu);
}
DUET_REGISTER(study_memory_kind_lookup_readonly);
}  // namespace
}  // namespace duet::DUET_DEVICE
