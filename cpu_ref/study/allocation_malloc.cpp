// SPDX-License-Identifier: Apache-2.0
// study/allocation: malloc and free, as the C library is set: beyond its threshold each call maps pages and gives them
// back.
#include <cstdlib>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/error.h"
#include "cpu_ref/study/allocation.h"

namespace duet {
namespace {

Plan study_allocation_malloc(const Allocation& p, CpuContext& cpu) {
  return [p, &cpu](Args t) {
    if (p.pages == 0) return;
    auto* memory = static_cast<char*>(std::malloc(static_cast<size_t>(p.pages * Allocation::kPageBytes)));
    if (!memory) throw Error("malloc has no room for {} pages", p.pages);
    touch_pages(cpu, t[Allocation::x].as<const float>(), memory, t[Allocation::y].as<float>(), p.pages);
    std::free(memory);
  };
}
DUET_REGISTER(study_allocation_malloc);  // cpu.malloc

}  // namespace
}  // namespace duet
