// SPDX-License-Identifier: Apache-2.0
// Every test case of every model on a GPU as one recorded graph, timed and verified as bench_all does it: the training
// steps that model_step_test.cpp, which takes each model's first case, leaves out, and the inferences of all.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/gpu.h"
#include "models/step.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 3;

struct Named {
  Model model;
  std::string name;  // of the test
  bool first;        // of its model
};

std::vector<Named> every_case() {
  std::vector<Named> all;
  std::set<std::string> seen;
  for (const ModelCase& c : model_cases(Scale::test)) {
    std::string name = c.model.name() + "_" + c.model.label();
    std::ranges::replace_if(
        name, [](char letter) { return std::isalnum(letter) == 0; }, '_');
    all.push_back({c.model, name, seen.insert(c.model.name()).second});
  }
  return all;
}

class EveryCase : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    std::string reason;
    gpu_ = open_gpu(reason);
    if (!gpu_) GTEST_SKIP() << reason;
  }
  void verify(const Model& model, Pass pass) {
    SCOPED_TRACE(model.name() + " " + model.label());
    Step step(model, *gpu_, Tape::preferences_for(gpu_->device()), kSeed, Step::Form::graph, pass);
    ASSERT_TRUE(step.supported()) << step.reason();
    step.draw_inputs(kSeed);
    gpu_->enter([&] { step.run(); });
    step.keep_state();
    gpu_->enter([&] {
      for (int i = 0; i < 3; ++i) step.run();
    });
    EXPECT_EQ(step.changed_input(), "");
    const Check check = step.replay_kept(3);
    EXPECT_TRUE(check.passed()) << check.failure;
  }
  std::unique_ptr<Context> gpu_;
};

TEST_P(EveryCase, TrainsAsAGraphOnTheGpu) {
  if (GetParam().first) GTEST_SKIP() << "ModelStep.IsTheSameAsAGraphOnTheGpu has it";
  verify(GetParam().model, Pass::training);
}

// In each form in which it is served, such as with weights of 8 bits, and one sample, unless it refuses them.
TEST_P(EveryCase, AnswersAsAGraphOnTheGpu) {
  int forms = 0;
  for (const Case& form : served_forms(GetParam().model)) {
    std::optional<Model> served;
    for (const char* batch : {" batch:1", ""}) try {
        if (!served) served = GetParam().model.with_words(form.text + std::string(batch));
      } catch (const Error&) {
        continue;
      }
    if (!served) continue;
    ++forms;
    verify(*served, Pass::inference);
  }
  EXPECT_GT(forms, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryCase, testing::ValuesIn(every_case()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duet
