// SPDX-License-Identifier: Apache-2.0
// What timed steps leave is compared: ops with planted errors that a step run op by op, with poisoned outputs, would
// not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "core/cpu_context.h"
#include "core/machine.h"
#include "core/registry.h"
#include "models/step.h"
#include "ops/gemm/linear.h"
#include "ops/optimiser/sgd.h"

namespace duet {
namespace {

enum class Planted : uint8_t {
  nothing,
  works_every_second_time,
  works_when_poisoned,
  works_at_first,
  spoils_its_input
};
Planted planted = Planted::nothing;

// cpu.tuned with the fault; `in` and `out` are the tensors that it looks at and spoils.
template <class P>
Plan faulty(const P& p, CpuContext& cpu, Slot in, Slot out) {
  Plan honest = find_implementation(P::name, "cpu.tuned")->plan(Problem::of(p), cpu);
  if (!honest) return Unsupported{honest.reason()};
  const WorkspaceLayout workspace = honest.workspace;
  const auto shared = std::make_shared<Plan>(std::move(honest));
  return Plan([shared, in, out, calls = 0](Args t) mutable {
           const int call = calls++;
           unsigned char first[4];
           std::memcpy(first, t[out].data, 4);
           const bool poisoned = first[0] == 0xFF && first[1] == 0xFF && first[2] == 0xFF && first[3] == 0xFF;
           if (planted == Planted::works_every_second_time && call % 2 == 1) return;
           if (planted == Planted::works_when_poisoned && !poisoned) return;
           if (planted == Planted::works_at_first && call > 3) return;
           (*shared)(t);
           if (planted == Planted::spoils_its_input && call == 2) static_cast<unsigned char*>(t[in].data)[8] ^= 1;
         })
      .with("planted fault", workspace);
}
Plan linear_planted(const Linear& p, CpuContext& cpu) { return faulty(p, cpu, Linear::x, Linear::y); }
DUET_REGISTER(linear_planted);
Plan sgd_planted(const Sgd& p, CpuContext& cpu) { return faulty(p, cpu, Sgd::g, Sgd::v); }
DUET_REGISTER(sgd_planted);

// A series as bench_all times it, with `steps` in its last sample.
std::string failure_of(Planted fault, int before, int steps) {
  planted = fault;
  CpuContext cpu(std::min(2, usable_threads()));
  Step step(find_model("mlp").with_words("batch:8"), cpu, {"cpu.planted", "cpu.tuned", "cpu.openblas"});
  EXPECT_TRUE(step.supported()) << step.reason();
  const auto run = [&](int count) {
    cpu.enter([&] {
      for (int i = 0; i < count; ++i) step.run();
    });
  };
  step.draw_inputs(1);
  run(before);
  step.keep_state();
  run(steps);
  if (const std::string input = step.changed_input(); !input.empty()) return "input " + input + " has changed";
  return step.replay_kept(steps).failure;
}

// Without memory for the state before the timed steps, the row says what is not compared.
TEST(TimedSteps, SayWhatIsNotCompared) {
  planted = Planted::nothing;
  CpuContext cpu(1);
  for (const bool room : {true, false}) {
    Step step(find_model("mlp").with_words("batch:8"), cpu, {"cpu.tuned", "cpu.openblas"});
    step.draw_inputs(1);
    step.keep_state(room ? INT64_MAX : 1000);
    cpu.enter([&] { step.run(); });
    const Check check = step.replay_kept(1, 1, 60);
    EXPECT_TRUE(check.passed()) << check.failure;
    EXPECT_EQ(check.coverage, room ? "op by op" : "sampled");
    EXPECT_EQ(check.sampled_reason.find("no memory to keep") == std::string::npos, room) << check.sampled_reason;
  }
}

TEST(StepTransfers, EndToEndReadsTheLossAndLeavesTheLogits) {
  planted = Planted::nothing;
  CpuContext cpu(1);
  Step step(find_model("mlp").with_words("batch:8"), cpu, {"cpu.tuned", "cpu.openblas"});
  ASSERT_GT(step.tape().outputs().size(), 1u) << "the logits are an output, too";
  const auto read = step.device_outputs();
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].second, 4) << "bytes of the loss";
}

// A forward pass alone holds no gradients, returns its logits and is verified as a step is.
TEST(TimedInferences, AreVerifiedAndReturnTheLogits) {
  CpuContext cpu(1);
  const Model mlp = find_model("mlp").with_words("batch:8");
  const auto make = [&](Pass pass) {
    return std::make_unique<Step>(mlp, cpu, Tape::Preferences{"cpu.planted", "cpu.tuned", "cpu.openblas"}, 1,
                                  Step::Form::eager, pass);
  };
  for (const Planted fault : {Planted::nothing, Planted::works_every_second_time, Planted::works_at_first}) {
    planted = fault;
    const auto infer = make(Pass::inference);
    infer->draw_inputs(1);
    infer->keep_state();
    cpu.enter([&] {
      for (int i = 0; i < 4; ++i) infer->run();
    });
    EXPECT_EQ(infer->replay_kept(4).passed(), fault == Planted::nothing) << static_cast<int>(fault);
  }
  planted = Planted::nothing;
  const auto infer = make(Pass::inference), train = make(Pass::training);
  ASSERT_EQ(infer->device_outputs().size(), 1u);
  EXPECT_EQ(infer->device_outputs()[0].second, 4 * 8 * 10) << "bytes of the logits";
  EXPECT_FALSE(infer->tape().has_gradients());
  EXPECT_LT(infer->memory_bytes(), train->memory_bytes() / 2);
  EXPECT_LT(infer->flops(), train->flops());
  EXPECT_EQ(step_job_name(mlp, "cpu", Pass::inference), "infer/mlp/cpu/f32/batch:8");
}

TEST(TimedSteps, HonestOnesPass) {
  for (const int steps : {1, 2, 3, 4}) EXPECT_EQ(failure_of(Planted::nothing, 3, steps), "") << steps;
}

TEST(TimedSteps, EveryFaultIsRefused) {
  for (const int before : {4, 5, 6})
    for (const int steps : {1, 2, 3, 4}) {
      EXPECT_NE(failure_of(Planted::works_every_second_time, before, steps), "") << before << " " << steps;
      EXPECT_NE(failure_of(Planted::works_when_poisoned, before, steps), "") << before << " " << steps;
      EXPECT_NE(failure_of(Planted::works_at_first, before, steps), "") << before << " " << steps;
      EXPECT_THAT(failure_of(Planted::spoils_its_input, before, steps), testing::HasSubstr("input x has changed"));
    }
}

// A job has several series. Each one's timed steps are run again, but only the first time with every op compared.
TEST(TimedSteps, EveryOpIsComparedOncePerJobAndTheStepsOfEverySeries) {
  for (const Planted fault :
       {Planted::nothing, Planted::works_every_second_time, Planted::works_when_poisoned, Planted::works_at_first}) {
    planted = Planted::nothing;
    CpuContext cpu(1);
    Step step(find_model("mlp").with_words("batch:8"), cpu, {"cpu.planted", "cpu.tuned", "cpu.openblas"});
    const auto series = [&](uint64_t seed) {
      step.draw_inputs(seed);
      step.keep_state();
      cpu.enter([&] {
        for (int i = 0; i < 3; ++i) step.run();
      });
      return step.replay_kept(3, 1, 60);
    };
    const Check first = series(1);
    EXPECT_TRUE(first.passed()) << first.failure;
    EXPECT_GT(first.elements, 0);
    planted = fault;
    const Check second = series(2);
    EXPECT_EQ(second.passed(), fault == Planted::nothing) << static_cast<int>(fault) << ": " << second.failure;
    EXPECT_EQ(second.elements, 0);
  }
}

}  // namespace
}  // namespace duet
