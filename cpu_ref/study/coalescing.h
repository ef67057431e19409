// SPDX-License-Identifier: Apache-2.0
// How the implementations of study/coalescing on the CPU divide the accesses among threads.
#pragma once
#include <algorithm>

#include "core/cpu_context.h"
#include "core/plan.h"
#include "ops/study/coalescing.h"

namespace duet {

// Accesses<width>::run(x, y, count, stride) for ranges of accesses; stride in accesses, addresses of the first one.
template <template <int> class Accesses>
Plan accesses_in_parts(const Coalescing& p, CpuContext& cpu) {
  constexpr int64_t kGrainBytes = 64 << 10;  // of y
  const auto run = p.width == 4 ? Accesses<4>::run : p.width == 8 ? Accesses<8>::run : Accesses<16>::run;
  return [p, run, &cpu](Args t) {
    const auto* x = reinterpret_cast<const char*>(t[Coalescing::x].as<const float>()) + p.offset * 4;
    auto* y = reinterpret_cast<char*>(t[Coalescing::y].as<float>());
    cpu.parallel_for(p.n / p.elements(), kGrainBytes / p.width, [&](int64_t first, int64_t last) {
      run(x + first * p.stride * p.width, y + first * p.width, last - first, p.stride);
    });
  };
}

}  // namespace duet
