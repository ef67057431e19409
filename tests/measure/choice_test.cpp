// SPDX-License-Identifier: Apache-2.0
// Which implementation a tape takes: by order, or the fastest that was measured.
#include "models/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "core/cpu_context.h"
#include "models/step.h"
#include "ops/elementwise/relu.h"

namespace duet {
namespace {

// More implementations of relu: one that takes its time, one that prepares its input, one that accepts nothing, one
// that does nothing, and one that throws.
int slow_plans = 0, slow_runs = 0;
Plan relu_slow(const Relu& p, CpuContext& cpu) {
  ++slow_plans;
  const auto honest = std::make_shared<Plan>(find_implementation("relu", "cpu.tuned")->plan(Problem::of(p), cpu));
  return Plan([honest](Args t) {
    ++slow_runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    (*honest)(t);
  });
}
DUET_REGISTER(relu_slow);
Plan relu_wrong(const Relu&, CpuContext&) {
  return Plan([](Args) {});
}
DUET_REGISTER(relu_wrong);
Plan relu_throwing(const Relu&, CpuContext&) {
  return Plan([](Args) { throw Error("it never works"); });
}
DUET_REGISTER(relu_throwing);
int prepared_runs = 0;
Plan relu_prepared(const Relu& p, CpuContext& cpu) {
  const auto honest = std::make_shared<Plan>(find_implementation("relu", "cpu.tuned")->plan(Problem::of(p), cpu));
  return Plan([honest](Args t) {
           ++prepared_runs;
           (*honest)(t);
         })
      .prepared({Relu::x}, [](Args) {});
}
DUET_REGISTER(relu_prepared);
Plan relu_never(const Relu&, CpuContext&) { return Unsupported{"it accepts nothing"}; }
DUET_REGISTER(relu_never);

TEST(Choices, TheFirstOfTheOrderOrTheFastest) {
  CpuContext cpu(1);
  const Problem relu = Problem::of(Relu{.n = 4096});
  std::string by_order, measured;
  cpu.enter([&] {
    by_order = choose(relu, cpu, {"cpu.never", "cpu.slow", "cpu.tuned"}, Choice::order).implementation;
    measured = choose(relu, cpu, {"cpu.never", "cpu.slow", "cpu.tuned"}, Choice::measured).implementation;
  });
  EXPECT_EQ(by_order, "cpu.slow");
  EXPECT_TRUE(measured == "cpu.tuned" || measured == "cpu.onednn")
      << measured << ": the one that does nothing is faster";
  try {
    choose(relu, cpu, {"cpu.never"}, Choice::order);
    ADD_FAILURE() << "nothing serves it";
  } catch (const NotServed& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("relu f32/n:4096 is served by none"));
  }
  EXPECT_THROW(parse_choice("fastest"), Error);
}

TEST(Choices, WhatPreparesInputsBeforeTheClockIsNotMeasured) {
  CpuContext cpu(1);
  cpu.enter([&] { choose(Problem::of(Relu{.n = 7000}), cpu, {"cpu.tuned"}, Choice::measured); });
  EXPECT_EQ(prepared_runs, 0);
}

TEST(Choices, WhatWasMeasuredIsKept) {
  CpuContext cpu(1);
  const auto runs_of_the_slow_one = [&] {
    slow_runs = 0;
    cpu.enter([&] { choose(Problem::of(Relu{.n = 5000}), cpu, {"cpu.tuned"}, Choice::measured); });
    return slow_runs;
  };
  EXPECT_GT(runs_of_the_slow_one(), 1);
  EXPECT_EQ(runs_of_the_slow_one(), 0);
}

// A plan may take a library a second.
TEST(Choices, EachIsPlannedOnce) {
  CpuContext cpu(1);
  slow_plans = 0;
  Chosen chosen{"", Unsupported{""}};
  cpu.enter([&] { chosen = choose(Problem::of(Relu{.n = 6000}), cpu, {"cpu.tuned"}, Choice::measured); });
  EXPECT_EQ(slow_plans, 1);
  EXPECT_TRUE(chosen.plan);
}

// A step whose implementations were measured passes the same checks, and its row names them.
TEST(Choices, AMeasuredStepIsVerified) {
  CpuContext cpu(1);
  Step step(find_model("mlp").with("batch", "8"), cpu, Tape::preferences_for(Device::cpu), 1, Step::Form::eager,
            Pass::training, Choice::measured);
  ASSERT_TRUE(step.supported()) << step.reason();
  EXPECT_EQ(step.replay().failure, "");
  for (const auto& [op, implementation] : step.implementations()) EXPECT_NE(implementation, "cpu.slow") << op;
}

}  // namespace
}  // namespace duet
