// SPDX-License-Identifier: Apache-2.0
// study/allocation: pages of 2 MiB, mapped and unmapped in each run, where the system has them.
#include <sys/mman.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/error.h"
#include "core/machine.h"
#include "cpu_ref/study/allocation.h"

namespace duet {
namespace {

Plan study_allocation_huge(const Allocation& p, CpuContext& cpu) {
  constexpr int64_t kHugePage = int64_t{2} << 20;
  if (p.pages * Allocation::kPageBytes < kHugePage && p.pages > 0) return Unsupported{"less than a huge page"};
  if (read_machine_state().thp == "never") return Unsupported{"transparent huge pages are off: enabled is never"};
  return [p, &cpu](Args t) {
    if (p.pages == 0) return;
    // A mapping may begin anywhere: what lies before the first whole huge page is not used.
    const auto bytes =
        static_cast<size_t>(ceil_div(p.pages * Allocation::kPageBytes, kHugePage) * kHugePage + kHugePage);
    void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) throw Error("mmap has no room for {} bytes", bytes);
    const auto skip = (kHugePage - reinterpret_cast<uintptr_t>(map) % kHugePage) % kHugePage;
    auto* memory = static_cast<char*>(map) + skip;
    madvise(memory, bytes - kHugePage, MADV_HUGEPAGE);
    touch_pages(cpu, t[Allocation::x].as<const float>(), memory, t[Allocation::y].as<float>(), p.pages);
    munmap(map, bytes);
  };
}
DUET_REGISTER(study_allocation_huge);  // cpu.huge

}  // namespace
}  // namespace duet
