// SPDX-License-Identifier: Apache-2.0
#include "core/composed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/error.h"

namespace duet {
namespace {

constexpr int64_t kElements = 3;
constexpr Slot kFrom = input(0, "from"), kTo = output(1, "to");
std::vector<TensorSpec> tensors() { return {kFrom.of(DType::f32, {kElements}), kTo.of(DType::f32, {kElements})}; }

// to = factor from, by way of memory of its own.
Plan scaled(float factor, const char* algorithm) {
  WorkspaceLayout workspace;
  const auto copy = workspace.add<float>(kElements);
  return Plan([=](Args t) {
           float* const between = t.workspace(copy);
           for (int64_t i = 0; i < kElements; ++i) between[i] = factor * t[kFrom].as<const float>()[i];
           for (int64_t i = 0; i < kElements; ++i) t[kTo].as<float>()[i] = between[i];
         })
      .with(algorithm, std::move(workspace));
}

// Runs a plan of from and to on 1, 2, 3.
std::vector<float> run(Plan& plan) {
  std::vector<float> from{1, 2, 3}, to(kElements);
  alignas(WorkspaceLayout::kAlignment) static char workspace[4096];
  EXPECT_LE(plan.workspace_bytes(), int64_t{sizeof workspace});
  const Tensor all[] = {{from.data(), DType::f32, Role::in}, {to.data(), DType::f32, Role::out}};
  plan(Args(all, workspace, plan.workspace_bytes()));
  return to;
}

TEST(ComposedPlan, RunsItsPartsOneAfterTheOther) {
  ComposedPlan whole;
  const auto between = whole.between(kTo.of(DType::f32, {kElements}));
  whole.add(scaled(2, "twice"), tensors(), {kFrom, between});
  whole.add(scaled(5, "by five"), tensors(), {between, kTo});
  Plan plan = std::move(whole).plan();
  EXPECT_EQ(plan.algorithm, "twice; by five");
  EXPECT_FALSE(plan.varies);
  EXPECT_THAT(run(plan), testing::ElementsAre(10, 20, 30));
  EXPECT_THAT(run(plan), testing::ElementsAre(10, 20, 30));
}

TEST(ComposedPlan, NamesAnAlgorithmOnce) {
  ComposedPlan whole;
  const auto between = whole.between(kTo.of(DType::f32, {kElements}));
  whole.add(scaled(2, "by rows"), tensors(), {kFrom, between});
  whole.add(scaled(5, "by rows").varying(), tensors(), {between, kTo});
  const Plan plan = std::move(whole).plan();
  EXPECT_EQ(plan.algorithm, "by rows");
  EXPECT_TRUE(plan.varies);
}

// The last two of three elements, one by one.
TEST(ComposedPlan, RunsAPartOnPartsOfTensors) {
  const auto doubled = [] { return Plan([](Args t) { *t[kTo].as<float>() = 2 * *t[kFrom].as<const float>(); }); };
  const std::vector<TensorSpec> one{kFrom.of(DType::f32, {1}), kTo.of(DType::f32, {1})};
  ComposedPlan whole;
  const ComposedPlan::Source between = whole.between(kTo.of(DType::f32, {kElements}));
  whole.add(scaled(5, ""), tensors(), {kFrom, between});
  whole.add(scaled(1, ""), tensors(), {kFrom, kTo});
  for (const int64_t at : {4, 8}) whole.add(doubled(), one, {between.from(at), ComposedPlan::Source(kTo).from(at)});
  Plan plan = std::move(whole).plan();
  EXPECT_THAT(run(plan), testing::ElementsAre(1, 20, 30));
}

TEST(ComposedPlan, PreparesAPartInEveryRun) {
  int preparations = 0;
  ComposedPlan whole;
  whole.add(scaled(2, "").prepared({kFrom}, [&preparations](Args) { ++preparations; }), tensors(), {kFrom, kTo});
  Plan plan = std::move(whole).plan();
  EXPECT_FALSE(plan.is_prepared());
  EXPECT_THAT(run(plan), testing::ElementsAre(2, 4, 6));
  run(plan);
  EXPECT_EQ(preparations, 2);
}

TEST(ComposedPlan, IsUnsupportedForTheReasonOfItsFirstPartThatIs) {
  ComposedPlan whole;
  whole.add(scaled(2, ""), tensors(), {kFrom, kTo});
  whole.add(Unsupported{"no such hardware"}, tensors(), {kFrom, kTo});
  whole.add(Unsupported{"too large"}, tensors(), {kFrom, kTo});
  const Plan plan = std::move(whole).plan();
  EXPECT_FALSE(plan);
  EXPECT_EQ(plan.reason(), "no such hardware");
}

TEST(ComposedPlan, RefusesTensorsThatAreMissing) {
  ComposedPlan whole;
  EXPECT_THROW(whole.add(scaled(2, ""), tensors(), {kFrom}), Error);
  EXPECT_THROW(whole.add(scaled(2, ""), tensors(), {kFrom, output(-1, "cT")}), Error);
}

}  // namespace
}  // namespace duet
