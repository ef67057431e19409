// SPDX-License-Identifier: Apache-2.0
// Memory that was obtained when the plan was made and is used again: what is left is to touch its pages.
#include "kernels/study/touch.cuh"

namespace duet::DUET_DEVICE {
namespace {
Plan study_allocation_arena(const Allocation& p, GpuContext& gpu) {
  WorkspaceLayout workspace;
  const auto memory = workspace.add<float>(p.pages * (Allocation::kPageBytes / int64_t{sizeof(float)}));
  return Plan([p, memory, stream = gpu.stream()](Args t) {
           launch_touch(stream, t[Allocation::x].as<const float>(), t.workspace(memory), t[Allocation::y].as<float>(),
                        p.pages);
         })
      .with(std::move(workspace));
}
DUET_REGISTER(study_allocation_arena);
}  // namespace
}  // namespace duet::DUET_DEVICE
