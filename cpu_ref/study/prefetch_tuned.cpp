// SPDX-License-Identifier: Apache-2.0
// study/prefetch on the CPU: lines are copied in the order of the index, and the line `ahead` of the one that is
// copied is asked for by a prefetch instruction.
#include <immintrin.h>

#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/study/prefetch.h"

namespace duet {
namespace {

Plan study_prefetch_tuned(const Prefetch& p, CpuContext& cpu) {
  constexpr int64_t kGrain = 4096;  // lines
  return [p, &cpu](Args t) {
    constexpr size_t kBytes = Prefetch::kCols * sizeof(float);
    const auto* x = t[Prefetch::x].as<const float>();
    const auto* index = t[Prefetch::index].as<const int32_t>();
    auto* y = t[Prefetch::y].as<float>();
    cpu.parallel_for(p.n, kGrain, [&](int64_t first, int64_t last) {
      const int64_t asked = p.ahead == 0 ? first : std::max(first, last - p.ahead);
      for (int64_t i = first; i < asked; ++i) {
        _mm_prefetch(reinterpret_cast<const char*>(x + index[i + p.ahead] * Prefetch::kCols), _MM_HINT_T0);
        std::memcpy(y + i * Prefetch::kCols, x + index[i] * Prefetch::kCols, kBytes);
      }
      for (int64_t i = asked; i < last; ++i)
        std::memcpy(y + i * Prefetch::kCols, x + index[i] * Prefetch::kCols, kBytes);
    });
  };
}
DUET_REGISTER(study_prefetch_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
