// SPDX-License-Identifier: Apache-2.0
// What the implementations of study/allocation on the CPU do with their memory.
#pragma once
#include "core/cpu_context.h"
#include "core/plan.h"
#include "ops/study/allocation.h"

namespace duet {

// Touches each page for the first time, by the threads that would use it, and reads it again. The read comes after all
// writes, so that no compiler keeps the value in a register.
inline void touch_pages(const CpuContext& cpu, const float* x, volatile char* memory, float* y, int64_t pages) {
  constexpr int64_t kGrain = 64;  // pages
  cpu.parallel_for(pages, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p)
      *reinterpret_cast<volatile float*>(memory + p * Allocation::kPageBytes) = x[p];
    for (int64_t p = first; p < last; ++p)
      y[p] = *reinterpret_cast<volatile float*>(memory + p * Allocation::kPageBytes);
  });
}

}  // namespace duet
