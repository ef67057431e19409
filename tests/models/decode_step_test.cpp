// SPDX-License-Identifier: Apache-2.0
// The phases of a language model's inference: the logits of a text that is read at once (prefill) and goes on token by
// token against caches of keys and values (decode) are those of the whole text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/cpu_context.h"
#include "core/gpu.h"
#include "models/step.h"
#include "tests/models/verified.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 3;
constexpr int64_t kTokens = 8, kPrompt = 4;  // of a whole text, and of the prefill

// Between logits of two ways to compute them, in units of u times the largest logit: either is off by up to 47, the
// bound of a step of gpt2 in model_step_test.cpp; llama's is smaller. The reference computes in double.
constexpr double kBound = 2 * 47;

class Decode : public testing::TestWithParam<const char*> {
 protected:
  Decode() {
    const std::string text = GetParam();
    model_.emplace(find_model(text.substr(0, text.find(' '))).with_words(text.substr(text.find(' '))));
  }
  Model of_phase(const char* phase, int64_t tokens) const {
    return model_->with({{"phase", phase}, {"tokens", std::to_string(tokens)}});
  }
  void check(Context& context, const Tape::Preferences& preferences);
  std::optional<Model> model_;
};

void evaluate(Tape& tape, const Model& model, Tape* parameters) {
  model.evaluate(tape);
  tape.plan();
  if (parameters) tape.copy_state_from(*parameters);
}

void upload(Tape& tape, const char* name, const std::vector<int32_t>& values) {
  tape.upload(tape.find(name), std::span<const int32_t>(values));
}

// Two texts; the second prompt is one token shorter than the first.
void Decode::check(Context& context, const Tape::Preferences& preferences) {
  Tape whole(context, preferences, kSeed), prefill(context, preferences, kSeed), decode(context, preferences, kSeed);
  evaluate(whole, of_phase("whole", kTokens), nullptr);
  whole.fill_inputs(kSeed);
  context.enter([&] { whole.run(); });
  const std::vector<double> token = whole.download(whole.find("x")), want = whole.download(whole.find("logits"));
  const int64_t classes = whole.shape(whole.find("logits")).back();
  double scale = 0;
  for (const double v : want)
    if (v > -1000) scale = std::max(scale, std::abs(v));  // not those of the padding
  const double u = unit_roundoff(preferences == Tape::Preferences{"reference"} ? DType::f64 : DType::f32);
  const auto token_at = [&](int64_t b, int64_t t) { return static_cast<int32_t>(token[b * kTokens + t]); };
  const auto compare = [&](const Tape& got, int64_t b, int64_t t) {
    const std::vector<double> logits = got.download(got.find("logits"));
    for (int64_t c = 0; c < classes; ++c)
      EXPECT_NEAR(logits[b * classes + c], want[(b * kTokens + t) * classes + c], kBound * u * scale)
          << "sequence " << b << " token " << t << " class " << c << ", " << preferences[0];
  };

  evaluate(prefill, of_phase("prefill", kPrompt), &whole);
  const int32_t lengths[] = {kPrompt, kPrompt - 1};
  std::vector<int32_t> prompt;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < kPrompt; ++t) prompt.push_back(t < lengths[b] ? token_at(b, t) : 0);
  upload(prefill, "x", prompt);
  upload(prefill, "last", {lengths[0] - 1, static_cast<int32_t>(kPrompt) + lengths[1] - 1});
  context.enter([&] { prefill.run(); });
  for (int64_t b = 0; b < 2; ++b) compare(prefill, b, lengths[b] - 1);

  evaluate(decode, of_phase("decode", 1), &prefill);
  for (int32_t step = 0; lengths[0] + step < kTokens; ++step) {
    const int32_t at[] = {lengths[0] + step, lengths[1] + step};
    upload(decode, "x", {token_at(0, at[0]), token_at(1, at[1])});
    upload(decode, "position", {at[0], at[1]});
    upload(decode, "lengths", {at[0] + 1, at[1] + 1});
    context.enter([&] { decode.run(); });
    for (int64_t b = 0; b < 2; ++b) compare(decode, b, at[b]);
  }
  for (const Tape* tape : {&whole, &prefill, &decode}) EXPECT_TRUE(tape->guards_intact());
}

TEST_P(Decode, EqualsTheWholeTextOnTheCpu) {
  CpuContext cpu(1);
  check(cpu, {"reference"});
  check(cpu, Tape::preferences_for(Device::cpu));
}

TEST_P(Decode, EqualsTheWholeTextOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  check(*gpu, Tape::preferences_for(gpu->device()));
  check(*gpu, {"cuda.tuned", "cuda.naive"});
}

// As bench_all times and verifies them, with a full cache.
void verify(const Model& model, Context& context, Step::Form form) {
  for (const Case& phase : served_forms(model)) {
    Step step(model.with_words(phase.text), context, Tape::preferences_for(context.device()), kSeed, form,
              Pass::inference);
    SCOPED_TRACE(phase.text);
    expect_verified_as_timed(step, context, kSeed);
  }
}

TEST_P(Decode, IsVerifiedAsItIsTimed) {
  CpuContext cpu(1);
  verify(*model_, cpu, Step::Form::eager);
}

TEST_P(Decode, IsVerifiedAsItIsTimedOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  for (const Step::Form form : {Step::Form::eager, Step::Form::graph}) verify(*model_, *gpu, form);
}

INSTANTIATE_TEST_SUITE_P(Models, Decode,
                         testing::Values("gpt2 batch:2 tokens:8 layers:2 width:24 heads:3 vocabulary:31 context:11",
                                         "gpt2 batch:2 tokens:8 layers:1 width:24 heads:3 vocabulary:31 context:8 "
                                         "padding:8",
                                         "llama batch:2 tokens:8 layers:2 width:24 heads:6 kv_heads:2 inner:36 "
                                         "vocabulary:31 context:9"));

TEST(TextPhases, AreThoseOfAnInference) {
  CpuContext cpu(1);
  for (const char* name : {"gpt2", "llama"}) {
    Tape tape(cpu, {"reference"});
    EXPECT_THAT([&] { find_model(name).with_words("phase:decode tokens:1").train(tape); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("only an inference has phases")));
    EXPECT_THROW(find_model(name).with_words("phase:decode tokens:2"), Error);
    EXPECT_THROW(find_model(name).with_words("tokens:9 context:8"), Error);
    EXPECT_EQ(served_forms(find_model(name)).size(), 2u);
  }
  EXPECT_EQ(served_forms(find_model("lenet")).size(), 1u);
}

}  // namespace
}  // namespace duet
