// SPDX-License-Identifier: Apache-2.0
// Products that the matrix engine cuts in ways that no case of a contract reaches: they would take the kernels on the
// host too long.
#include <gtest/gtest.h>

#include "core/cpu_context.h"
#include "core/session.h"

namespace duet {
namespace {

class Engines : public testing::TestWithParam<const char*> {};

TEST_P(Engines, EqualTheReference) {
  const Problem problem = parse_case("gemm", GetParam());
  const HostTensors inputs = draw_inputs(problem, FillMode::values, 1);
  for (const int threads : {1, 2}) {
    CpuContext cpu(threads);
    Session session(problem, *find_implementation("gemm", "cpu.tuned"), cpu, inputs);
    ASSERT_TRUE(session.supported());
    session.poison_outputs();
    cpu.enter([&] { session.run(); });
    const Check check = compare(problem, Expected::all(problem, inputs), session.download(), false);
    EXPECT_TRUE(check.passed()) << threads << " threads: " << check.failure;
  }
}

// a transposed, and packed for its depth: by a grid of tasks, by strips, over two blocks of k.
INSTANTIATE_TEST_SUITE_P(Transposed, Engines,
                         testing::Values("m:259 n:131 k:261 trans_a:1", "m:131 n:259 k:257 trans_a:1",
                                         "m:300 n:200 k:1031 trans_a:1", "m:259 n:131 k:261 trans_a:1 trans_b:1"));

}  // namespace
}  // namespace duet
