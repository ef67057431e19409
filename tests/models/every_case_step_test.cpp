// SPDX-License-Identifier: Apache-2.0
// Every test case of every model, timed and verified as bench_all does it: on a GPU as a training step and as an
// inference, launched op by op and as one recorded graph; on the CPU as an inference. Other tests take the first case
// of each model.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu_context.h"
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
  static void verify(const Model& model, Pass pass, Context& context, Step::Form form) {
    SCOPED_TRACE(model.name() + " " + model.label());
    Step step(model, context, Tape::preferences_for(context.device()), kSeed, form, pass);
    expect_verified_as_timed(step, context, kSeed);
  }
  // In each form in which it is served, such as with weights of 8 bits, and one sample, unless it refuses them.
  static std::vector<Model> served() {
    std::vector<Model> all;
    for (const Case& form : served_forms(GetParam().model))
      for (const char* batch : {" batch:1", ""}) try {
          all.push_back(GetParam().model.with_words(form.text + std::string(batch)));
          break;
        } catch (const Error&) {
          continue;
        }
    return all;
  }
};

constexpr Step::Form kForms[] = {Step::Form::eager, Step::Form::graph};

TEST_P(EveryCase, TrainsOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  for (const Step::Form form : kForms) verify(GetParam().model, Pass::training, *gpu, form);
}

TEST_P(EveryCase, AnswersOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  const std::vector<Model> all = served();
  EXPECT_FALSE(all.empty());
  for (const Model& model : all)
    for (const Step::Form form : kForms) verify(model, Pass::inference, *gpu, form);
}

TEST_P(EveryCase, AnswersOnTheCpu) {
  CpuContext cpu(1);
  const std::vector<Model> all = served();
  EXPECT_FALSE(all.empty());
  for (const Model& model : all) verify(model, Pass::inference, cpu, Step::Form::eager);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryCase, testing::ValuesIn(every_case()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duet
