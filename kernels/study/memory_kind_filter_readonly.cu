// SPDX-License-Identifier: Apache-2.0
// Image and weights by loads that say that nothing writes the data meanwhile.
#include "kernels/study/memory_kind.cuh"

namespace duet::DUET_DEVICE {
namespace {
Plan study_memory_kind_filter_readonly(const MemoryKindFilter& p, GpuContext& gpu) {
  return filter_through<ReadOnly>(p, gpu);
}
DUET_REGISTER(study_memory_kind_filter_readonly);
}  // namespace
}  // namespace duet::DUET_DEVICE
