// SPDX-License-Identifier: Apache-2.0
// study/launch on the CPU: each node is a call of a function, which is not inlined, in the running thread: what is left
// of a node without a fork.
#include "core/cpu_context.h"
#include "core/registration.h"
#include "ops/study/launch.h"

namespace duet {
namespace {

[[gnu::noinline]] void node_of(const float* from, float* to) {
  for (int64_t c = 0; c < Launch::kCols; ++c) to[c] = from[c] + 1;
}

Plan study_launch_call(const Launch& p, CpuContext&) {
  return [p](Args t) {
    const auto* x = t[Launch::x].as<const float>();
    auto* y = t[Launch::y].as<float>();
    for (int64_t node = 0; node < p.nodes; ++node) node_of(x + node * Launch::kCols, y + node * Launch::kCols);
  };
}
DUET_REGISTER(study_launch_call);  // cpu.call

}  // namespace
}  // namespace duet
