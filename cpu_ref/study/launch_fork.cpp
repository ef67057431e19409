// SPDX-License-Identifier: Apache-2.0
// study/launch on the CPU: each node is a parallel_for of one part per thread, as the pool runs it. A part takes less
// time than it takes to wake a thread: the calling thread runs those that no other thread took by then, often all.
// Measured is what such a loop costs its caller, not how long it takes until all threads have arrived.
#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/study/launch.h"

namespace duet {
namespace {

Plan study_launch_fork(const Launch& p, CpuContext& cpu) {
  return [p, threads = int64_t{cpu.threads()}, &cpu](Args t) {
    const auto* x = t[Launch::x].as<const float>();
    auto* y = t[Launch::y].as<float>();
    for (int64_t node = 0; node < p.nodes; ++node) {
      const float* from = x + node * Launch::kCols;
      float* to = y + node * Launch::kCols;
      cpu.parallel_for(threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t c = first * Launch::kCols / threads; c < last * Launch::kCols / threads; ++c) to[c] = from[c] + 1;
      });
    }
  };
}
DUET_REGISTER(study_launch_fork);  // cpu.fork

}  // namespace
}  // namespace duet
