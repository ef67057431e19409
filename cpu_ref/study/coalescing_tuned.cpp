// SPDX-License-Identifier: Apache-2.0
// study/coalescing on the CPU: one load of the case's width for each access, all threads.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/study/coalescing.h"

namespace duet {
namespace {

template <int kWidth>
struct Loads {
  static void run(const char* x, char* y, int64_t count, int64_t stride) {
    if (stride == 1) {
      std::memcpy(y, x, static_cast<size_t>(count * kWidth));
      return;
    }
    for (int64_t g = 0; g < count; ++g) std::memcpy(y + g * kWidth, x + g * stride * kWidth, kWidth);
  }
};

Plan study_coalescing_tuned(const Coalescing& p, CpuContext& cpu) { return accesses_in_parts<Loads>(p, cpu); }
DUET_REGISTER(study_coalescing_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
