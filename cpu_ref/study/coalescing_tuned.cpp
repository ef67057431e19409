// SPDX-License-Identifier: Apache-2.0
// study/coalescing on the CPU: one load of the case's width for each access, at every stride, all threads.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/study/coalescing.h"

namespace duet {
namespace {

template <int kWidth>
struct Loads {
  static void run(const char* x, char* y, int64_t count, int64_t stride) {
    for (int64_t g = 0; g < count; ++g) {
      std::memcpy(y + g * kWidth, x + g * stride * kWidth, kWidth);
      asm volatile("" ::: "memory");  // no compiler joins neighbours to a wider access
    }
  }
};

Plan study_coalescing_tuned(const Coalescing& p, CpuContext& cpu) { return accesses_in_parts<Loads>(p, cpu); }
DUET_REGISTER(study_coalescing_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
