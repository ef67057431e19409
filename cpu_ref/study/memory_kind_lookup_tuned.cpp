// SPDX-License-Identifier: Apache-2.0
// study/memory_kind_lookup on the CPU: a load for each index. Loads do not wait for each other, so that several misses
// are under way at once.
#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/study/memory_kind.h"

namespace duet {
namespace {

Plan study_memory_kind_lookup_tuned(const MemoryKindLookup& p, CpuContext& cpu) {
  constexpr int64_t kGrain = 16384;  // lookups
  return [p, &cpu](Args t) {
    const auto* table = t[MemoryKindLookup::table].as<const float>();
    const auto* index = t[MemoryKindLookup::index].as<const int32_t>();
    auto* y = t[MemoryKindLookup::y].as<float>();
    cpu.parallel_for(p.n, kGrain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) y[i] = table[index[i]];
    });
  };
}
DUET_REGISTER(study_memory_kind_lookup_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
