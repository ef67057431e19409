// SPDX-License-Identifier: Apache-2.0
// A plan that prepares inputs before it runs, and the session that keeps what was prepared true.
#include "core/plan.h"

#include <gtest/gtest.h>

#include "core/cpu_context.h"
#include "core/session.h"
#include "ops/elementwise/relu.h"

namespace duet {
namespace {

constexpr int64_t kCount = 1000;

// relu of a copy of x, which it prepares in its workspace.
Plan of_copy(int& prepared, int& ran) {
  WorkspaceLayout workspace;
  const auto copy = workspace.add<float>(kCount);
  return Plan([=, &ran](const Args& t) {
           ++ran;
           const float* x = t.workspace(copy);
           float* y = t[Relu::y].as<float>();
           for (int64_t i = 0; i < kCount; ++i) y[i] = x[i] > 0 ? x[i] : 0;
         })
      .with("of a copy", std::move(workspace))
      .prepared({Relu::x}, [=, &prepared](const Args& t) {
        ++prepared;
        const float* x = t[Relu::x].as<const float>();
        std::copy(x, x + kCount, t.workspace(copy));
      });
}

class PreparedPlan : public testing::Test {
 protected:
  void expect_right(Session& session, const HostTensors& inputs) {
    session.poison_outputs();
    cpu_.enter([&] { session.run(); });
    const Check check = session.check(Expected::sampled(problem_, inputs, 1, 1e9), false);
    EXPECT_TRUE(check.passed()) << check.failure;
  }
  CpuContext cpu_{1};
  const Problem problem_ = Problem::of(Relu{.n = kCount});
  const HostTensors first_ = draw_inputs(problem_, FillMode::values, 1),
                    second_ = draw_inputs(problem_, FillMode::values, 2);
  int prepared_ = 0, ran_ = 0;
};

TEST_F(PreparedPlan, IsPreparedAgainWhereInputsChangeAndNotByARun) {
  Session session(problem_, of_copy(prepared_, ran_), cpu_, first_);
  EXPECT_EQ(prepared_, 1);
  expect_right(session, first_);
  expect_right(session, first_);
  EXPECT_EQ(prepared_, 1);
  session.load(second_);
  expect_right(session, second_);
  EXPECT_EQ(prepared_, 2);
  session.place({});
  expect_right(session, second_);
  EXPECT_EQ(prepared_, 3);
  EXPECT_EQ(ran_, 4);
}

TEST_F(PreparedPlan, ACallOfThePlanPreparesAndRuns) {
  std::vector<float> x(kCount, 2), y(kCount, 0), workspace(kCount);
  const Tensor tensors[] = {{x.data(), DType::f32, Role::in}, {y.data(), DType::f32, Role::out}};
  Plan plan = of_copy(prepared_, ran_);
  plan(Args(tensors, workspace.data(), kCount * 4));
  EXPECT_EQ(y[kCount - 1], 2);
  x.assign(kCount, 3);
  plan(Args(tensors, workspace.data(), kCount * 4));
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(prepared_, 2);
}

TEST_F(PreparedPlan, PreparesFromTheInputsThatItNamesAlone) {
  float x = 1, y = 1;
  const Tensor tensors[] = {{&x, DType::f32, Role::in}, {&y, DType::f32, Role::out}};
  const void *seen_x = nullptr, *seen_y = nullptr;
  Plan plan = Plan([](const Args&) {}).prepared({Relu::y}, [&](const Args& t) {
    seen_x = t[Relu::x].data;
    seen_y = t[Relu::y].data;
  });
  plan.prepare(Args(tensors));
  EXPECT_EQ(seen_x, nullptr);
  EXPECT_EQ(seen_y, &y);
}

}  // namespace
}  // namespace duet
