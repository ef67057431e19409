// SPDX-License-Identifier: Apache-2.0
// study/launch on the CPU: each node is a fork of the threads and their join.
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
      // A part for each thread: what a fork costs when all take part.
      cpu.parallel_for(threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t c = first * Launch::kCols / threads; c < last * Launch::kCols / threads; ++c) to[c] = from[c] + 1;
      });
    }
  };
}
DUET_REGISTER(study_launch_fork);  // cpu.fork

}  // namespace
}  // namespace duet
