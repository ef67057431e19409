// SPDX-License-Identifier: Apache-2.0
// study/allocation: malloc and free, as the C library is set. glibc raises its thresholds to the size of a mapping when
// that is freed, up to 32 MiB: the runs after the first reuse what was freed, and touch pages that they already had.
// Larger memory is mapped and given back in each run. cpu.mmap is what new pages cost at every size.
#include <cstdlib>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/error.h"
#include "cpu_ref/study/allocation.h"

namespace duet {
namespace {

Plan study_allocation_malloc(const Allocation& p, CpuContext& cpu) {
  return Plan([p, &cpu](Args t) {
           if (p.pages == 0) return;
           auto* memory = static_cast<char*>(std::malloc(static_cast<size_t>(p.pages * Allocation::kPageBytes)));
           if (!memory) throw Error("malloc has no room for {} pages", p.pages);
           touch_pages(cpu, t[Allocation::x].as<const float>(), memory, t[Allocation::y].as<float>(), p.pages);
           std::free(memory);
         })
      .with("malloc, which may reuse what was freed");
}
DUET_REGISTER(study_allocation_malloc);  // cpu.malloc

}  // namespace
}  // namespace duet
