// SPDX-License-Identifier: Apache-2.0
// A plan that prepares inputs before it runs, and the session that keeps what was prepared true.
#include "core/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/cpu_context.h"
#include "core/error.h"
#include "core/session.h"
#include "ops/elementwise/add.h"

namespace duet {
namespace {

constexpr int64_t kCount = 1000;

// a + b, of a copy of a that it prepares in its workspace.
Plan of_copy(int& prepared, int& ran) {
  WorkspaceLayout workspace;
  const auto copy = workspace.add<float>(kCount);
  return Plan([=, &ran](const Args& t) {
           ++ran;
           const float *a = t.workspace(copy), *b = t[Add::b].as<const float>();
           float* c = t[Add::c].as<float>();
           for (int64_t i = 0; i < kCount; ++i) c[i] = a[i] + b[i];
         })
      .with("of a copy", std::move(workspace))
      .prepared({Add::a}, [=, &prepared](const Args& t) {
        ++prepared;
        const float* a = t[Add::a].as<const float>();
        std::copy(a, a + kCount, t.workspace(copy));
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
  const Problem problem_ = Problem::of(Add{.n = kCount});
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
}

// Or a plan could take prepare() for the news that all inputs have changed, and otherwise repeat its answer.
TEST_F(PreparedPlan, RunsBetweenPreparingAndTheOtherInputs) {
  Session session(problem_, of_copy(prepared_, ran_), cpu_, first_);
  session.poison_outputs();
  session.load(second_);
  EXPECT_EQ(ran_, 1);
  const HostTensors got = session.download();
  const auto* a = static_cast<const float*>(second_.data(0));
  const auto* b = static_cast<const float*>(first_.data(1));
  EXPECT_EQ(static_cast<const float*>(got.data(2))[7], a[7] + b[7]);
}

TEST_F(PreparedPlan, ACallOfThePlanPreparesAndRuns) {
  std::vector<float> a(kCount, 2), b(kCount, 1), c(kCount, 0), workspace(kCount);
  const Tensor tensors[] = {
      {a.data(), DType::f32, Role::in}, {b.data(), DType::f32, Role::in}, {c.data(), DType::f32, Role::out}};
  Plan plan = of_copy(prepared_, ran_);
  plan(Args(tensors, workspace.data(), kCount * 4));
  EXPECT_EQ(c[kCount - 1], 3);
  a.assign(kCount, 3);
  plan(Args(tensors, workspace.data(), kCount * 4));
  EXPECT_EQ(c[0], 4);
  EXPECT_EQ(prepared_, 2);
}

TEST_F(PreparedPlan, PreparesFromTheInputsThatItNamesAlone) {
  float value = 1;
  const Tensor tensors[] = {
      {&value, DType::f32, Role::in}, {&value, DType::f32, Role::in}, {&value, DType::f32, Role::out}};
  std::vector<const void*> seen;
  Plan plan = Plan([](const Args&) {}).prepared({Add::b}, [&](const Args& t) {
    for (const Slot& s : {Add::a, Add::b, Add::c}) seen.push_back(t[s].data);
  });
  plan.prepare(Args(tensors));
  EXPECT_THAT(seen, testing::ElementsAre(nullptr, &value, nullptr));
  EXPECT_EQ(plan.prepared_names(), "b");
}

TEST_F(PreparedPlan, LeavesAnInputForTheClock) {
  const auto error_of = [&](std::vector<Slot> inputs) -> std::string {
    try {
      Session session(problem_, Plan([](const Args&) {}).prepared(std::move(inputs), [](const Args&) {}), cpu_, first_);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error_of({Add::a, Add::b}), "a plan prepares every input");
  EXPECT_EQ(error_of({Add::c}), "a plan prepares c, which is no input");
  EXPECT_EQ(error_of({Add::b}), "");
}

}  // namespace
}  // namespace duet
