// SPDX-License-Identifier: Apache-2.0
// Every test case of every model on a GPU, as a training step and as an inference, timed and verified as bench_all does
// it: launched op by op and as one recorded graph. Other tests take the first case of each model.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/gpu.h"
#include "models/step.h"
#include "tests/models/verified.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 3;

struct Named {
  Model model;
  std::string name;  // of the test
};

std::vector<Named> every_case() {
  std::vector<Named> all;
  for (const ModelCase& c : model_cases(Scale::test)) {
    std::string name = c.model.name() + "_" + c.model.label();
    std::ranges::replace_if(
        name, [](char letter) { return std::isalnum(letter) == 0; }, '_');
    all.push_back({c.model, name});
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
    for (const Step::Form form : {Step::Form::eager, Step::Form::graph}) {
      Step step(model, *gpu_, Tape::preferences_for(gpu_->device()), kSeed, form, pass);
      expect_verified_as_timed(step, *gpu_, kSeed);
    }
  }
  std::unique_ptr<Context> gpu_;
};

TEST_P(EveryCase, TrainsOnTheGpu) { verify(GetParam().model, Pass::training); }

// In each form in which it is served, such as with weights of 8 bits, and one sample, unless it refuses them.
TEST_P(EveryCase, AnswersOnTheGpu) {
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
