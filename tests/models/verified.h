// SPDX-License-Identifier: Apache-2.0
// How tests of whole steps have them verified.
#pragma once
#include <gtest/gtest.h>

#include "core/context.h"
#include "models/step.h"

namespace duet {

// As bench_all times and verifies a step. One step runs first, for what libraries create at a first call. What the
// three behind it leave is compared with what the same steps leave op by op, and each op with the reference.
inline void expect_verified_as_timed(Step& step, Context& context, uint64_t seed) {
  ASSERT_TRUE(step.supported()) << step.reason();
  step.draw_inputs(seed);
  context.enter([&] { step.run(); });
  step.keep_state();
  context.enter([&] {
    for (int i = 0; i < 3; ++i) step.run();
  });
  EXPECT_EQ(step.changed_input(), "");
  const Check check = step.replay_kept(3);
  EXPECT_TRUE(check.passed()) << check.failure;
}

// Each op in its place, in the third step.
inline void expect_right_op_by_op(Step& step, Context& context) {
  ASSERT_TRUE(step.supported()) << step.reason();
  context.enter([&] {
    step.run();
    step.run();
  });
  const Check check = step.replay();
  EXPECT_TRUE(check.passed()) << check.failure;
}

}  // namespace duet
