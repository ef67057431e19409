// SPDX-License-Identifier: Apache-2.0
// study/allocation: memory that was obtained when the plan was made and is used again: what is left is to touch its
// pages.

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/error.h"
#include "cpu_ref/study/allocation.h"

namespace duet {
namespace {

Plan study_allocation_arena(const Allocation& p, CpuContext& cpu) {
  WorkspaceLayout workspace;
  const auto memory = workspace.add_bytes(p.pages * Allocation::kPageBytes);
  return Plan([p, memory, &cpu](Args t) {
           if (p.pages == 0) return;
           touch_pages(cpu, t[Allocation::x].as<const float>(), static_cast<char*>(t.workspace(memory)),
                       t[Allocation::y].as<float>(), p.pages);
         })
      .with(workspace);
}
DUET_REGISTER(study_allocation_arena);  // cpu.arena

}  // namespace
}  // namespace duet
