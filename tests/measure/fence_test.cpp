// SPDX-License-Identifier: Apache-2.0
// Every implementation on the CPU on tensors that end, or begin, at a page of no access: a single byte that is read or
// written beyond a tensor ends the process. The last line of the output then names the job.
#include <gtest/gtest.h>

#include <cstdio>

#include "core/compare.h"
#include "core/cpu_context.h"
#include "core/machine.h"
#include "core/registry.h"
#include "core/session.h"

namespace duet {
namespace {

constexpr int64_t kMaxBytes = 1 << 18;  // of a case, so that all of them take seconds

void run_all(Fence fence) {
  CpuContext cpu(std::min(2, usable_threads()), fence);
  int jobs = 0;
  for (const GoldenLine& line : registry_golden()) {
    const Implementation* implementation = find_implementation(line.op, line.implementation);
    if (!implementation || implementation->device != Device::cpu) continue;
    for (const ProblemCase& c : find_op(line.op).cases(Scale::test)) {
      if (c.problem.footprint_bytes() > kMaxBytes) continue;
      const HostTensors inputs = draw_inputs(c.problem, FillMode::values, 7);
      Session session(c.problem, *implementation, cpu, inputs);
      if (!session.supported()) continue;
      std::printf("%s/%s/%s\n", line.op.c_str(), line.implementation.c_str(), c.problem.label().c_str());
      std::fflush(stdout);
      session.restore();
      session.poison_outputs();
      cpu.enter([&] { session.run(); });
      const Check check = session.check(Expected::sampled(c.problem, inputs, 7, 1e5), false);
      EXPECT_TRUE(check.passed()) << c.problem.label() << ": " << check.failure;
      ++jobs;
    }
  }
  EXPECT_GT(jobs, 100);
}

TEST(Fences, NothingIsTouchedBehindATensor) { run_all(Fence::behind); }
TEST(Fences, NothingIsTouchedBeforeATensor) { run_all(Fence::before); }

}  // namespace
}  // namespace duet
