// SPDX-License-Identifier: Apache-2.0
// study/allocation: pages of 4 KiB that are mapped and unmapped in each run.
#include <sys/mman.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/error.h"
#include "cpu_ref/study/allocation.h"

namespace duet {
namespace {

Plan study_allocation_mmap(const Allocation& p, CpuContext& cpu) {
  return [p, &cpu](Args t) {
    if (p.pages == 0) return;
    const auto bytes = static_cast<size_t>(p.pages * Allocation::kPageBytes);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error("mmap has no room for {} bytes", bytes);
    madvise(memory, bytes, MADV_NOHUGEPAGE);  // also where the system would use huge pages everywhere
    touch_pages(cpu, t[Allocation::x].as<const float>(), static_cast<char*>(memory), t[Allocation::y].as<float>(),
                p.pages);
    munmap(memory, bytes);
  };
}
DUET_REGISTER(study_allocation_mmap);  // cpu.mmap

}  // namespace
}  // namespace duet
