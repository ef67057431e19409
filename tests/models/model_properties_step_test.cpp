// SPDX-License-Identifier: Apache-2.0
// What every model keeps: its number of parameters, what its ops rewrite, and that evaluation is the same model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "core/cpu_context.h"
#include "core/machine.h"
#include "models/step.h"
#include "tests/models/tapes.h"

namespace duet {
namespace {

TEST(Models, HaveThePublishedNumberOfParameters) {
  const std::map<std::string, int64_t> published{
      {"bilstm", 172609},      {"cifar_cnn", 122570},   {"gpt2", 124439808},     {"lenet", 62006},
      {"mlp", 101770},         {"mnist_cnn", 225034},   {"resnet50", 25557032},  {"toy", 121},
      {"image_cnn", 22247242}, {"lstm_scorer", 214145}, {"recommender", 649480}, {"transformer", 63082496}};
  CpuContext cpu(1);
  const auto parameters_of = [&](const Model& model) {
    Tape tape(cpu, {"reference"});
    model.train(tape);
    int64_t count = 0;
    for (const auto& [parameter, var] : tape.named_parameters()) {
      int64_t elements = 1;
      for (const int64_t d : tape.shape(var)) elements *= d;
      count += elements;
    }
    return count;
  };
  for (const auto& [name, model] : models()) {
    if (name == "transformer_small" || name == "llama") continue;  // a size of our own, not a published one
    ASSERT_TRUE(published.contains(name)) << name;
    EXPECT_EQ(parameters_of(model), published.at(name)) << name;
  }
  EXPECT_EQ(parameters_of(find_model("image_cnn").with_words("side:128 classes:1")), 51474497);
  EXPECT_EQ(parameters_of(find_model("image_cnn").with_words("side:256 classes:1")), 236023873);
  EXPECT_EQ(parameters_of(find_model("llama").with_words("layers:22")), 1100048384);  // TinyLlama 1.1B
  EXPECT_EQ(parameters_of(find_model("resnet50").with_words("head_only:1")), 2049000);
}

TEST(Models, AreVerifiedInTheirOwnBuffers) {
  CpuContext cpu(std::min(2, usable_threads()));
  for (const ModelCase& c : model_cases(Scale::test)) {
    Step step(c.model, cpu, Tape::preferences_for(Device::cpu));
    ASSERT_TRUE(step.supported()) << step.reason();
    run_in_every_way(step, cpu);
    const Check check = step.replay();
    EXPECT_TRUE(check.passed()) << c.model.name() << ": " << check.failure;
  }
}

// A NaN in an input makes the reference expect NaN, so a step with NaN in its parameters would pass node by node.
TEST(Models, AStepThatLeftNaNFails) {
  CpuContext cpu(1);
  for (const ModelCase& c : model_cases(Scale::test)) {
    for (const bool state : {false, true}) {
      Step step(c.model, cpu, Tape::preferences_for(Device::cpu));
      cpu.enter([&] { step.run(); });
      const auto& list = state ? step.tape().states() : step.tape().named_parameters();
      const auto spoilt = std::find_if(list.begin(), list.end(), [&](const auto& named) {
        return is_float(step.tape().dtype(named.second)) && named.first != "lr";
      });
      if (state && spoilt == list.end()) continue;  // a model without such a state
      ASSERT_NE(spoilt, list.end());
      std::memset(step.tape().tensor(spoilt->second).data, 0xFF, 4);
      EXPECT_THAT(step.replay().failure, testing::HasSubstr(spoilt->first + " is not finite")) << c.model.name();
    }
  }
}

TEST(Models, EvaluateWithTheStatisticsOfTraining) {
  CpuContext cpu(1);
  const Model model = find_model("resnet50").with("batch", "4").with("side", "32").with("width", "4");
  Tape train(cpu, Tape::preferences_for(Device::cpu), 1), evaluate(cpu, Tape::preferences_for(Device::cpu), 2);
  model.train(train);
  model.evaluate(evaluate);
  train.plan();
  evaluate.plan();
  train.fill_inputs(kSeed);
  cpu.enter([&] { train.run(); });
  evaluate.copy_state_from(train);
  int statistics = 0;
  for (const auto& [name, var] : evaluate.states()) {
    EXPECT_EQ(evaluate.download(var), train.download(train.find(name))) << name;
    statistics += name.ends_with("running_mean") || name.ends_with("running_var");
  }
  EXPECT_EQ(statistics, 2 * 53);
}

// Once what a node rewrites is restored, a second run gives the results of the first.
TEST(Models, KnowWhatANodeRewrites) {
  CpuContext cpu(1);
  for (const ModelCase& c : model_cases(Scale::test)) {
    Step step(c.model, cpu, Tape::preferences_for(Device::cpu));
    cpu.enter([&] { step.tape().begin_step(); });
    for (size_t p = 0; p < step.nodes().size(); ++p) {
      std::vector<std::pair<void*, std::vector<char>>> before;
      for (const auto& [memory, bytes] : step.rewritten(p)) {
        const auto* data = static_cast<const char*>(memory);
        before.emplace_back(memory, std::vector<char>(data, data + bytes));
      }
      cpu.enter([&] { step.run_node(p); });
      std::map<size_t, std::vector<double>> once;
      const Tape::Node& node = step.tape().nodes()[p];
      const auto specs = node.problem.tensors();
      for (size_t s = 0; s < specs.size(); ++s)
        if (specs[s].role != Role::in) once[s] = step.tape().download(node.slots[s]);
      for (const auto& [memory, bytes] : before) std::memcpy(memory, bytes.data(), bytes.size());
      cpu.enter([&] { step.run_node(p); });
      for (const auto& [s, values] : once)
        EXPECT_EQ(step.tape().download(node.slots[s]), values) << node.job() << ", " << specs[s].name;
    }
  }
}

bool has_output(const Tape& tape, std::string_view name) {
  return std::any_of(tape.outputs().begin(), tape.outputs().end(),
                     [&](const auto& each) { return each.first == name; });
}

// Softmax cross-entropy of logits (label.size(), classes), averaged over rows.
double loss_of(const std::vector<double>& logits, const std::vector<double>& label) {
  const size_t classes = logits.size() / label.size();
  double loss = 0;
  for (size_t r = 0; r < label.size(); ++r) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(logits[r * classes + c]);
    loss += std::log(sum) - logits[r * classes + static_cast<size_t>(label[r])];
  }
  return loss / static_cast<double>(label.size());
}

// With the same parameters, an evaluation tape gives the logits of the training tape where nothing is random; of a
// language model, whose training overwrites them, those of its loss.
TEST(Models, EvaluationGivesTheLogitsOfTraining) {
  CpuContext cpu(1);
  for (const ModelCase& c : model_cases(Scale::test)) {
    const std::string n = c.model.name();
    const bool drops = n == "image_cnn" || (n == "mlp" && c.model.label().find("dropout:0") == std::string::npos);
    if (drops) continue;
    const Model model = n.starts_with("transformer") ? c.model.with({{"dropout", "0"}, {"smooth", "0"}}) : c.model;
    if (n == "resnet50" || n == "recommender") continue;  // running statistics; no logits
    Tape train(cpu, Tape::preferences_for(Device::cpu), 1), evaluate(cpu, Tape::preferences_for(Device::cpu), 2);
    model.train(train);
    model.evaluate(evaluate);
    train.plan();
    evaluate.plan();
    if (is_float(train.dtype(train.find("x"))) && train.dtype(train.find("x")) != DType::f32) continue;
    train.fill_inputs(kSeed);
    evaluate.copy_state_from(train);
    for (const auto& [name, input] : evaluate.inputs()) {
      const std::vector<double> values = train.download(train.find(name));
      if (train.dtype(train.find(name)) == DType::i32)
        evaluate.upload(input, std::span<const int32_t>(std::vector<int32_t>(values.begin(), values.end())));
      else
        evaluate.upload(input, std::span<const float>(std::vector<float>(values.begin(), values.end())));
    }
    cpu.enter([&] { evaluate.run(); });
    cpu.enter([&] { train.run(); });
    const std::vector<double> logits = evaluate.download(evaluate.find("logits"));
    if (has_output(train, "logits")) {
      EXPECT_EQ(logits, train.download(train.find("logits"))) << c.model.name();
    } else {
      const double loss = train.download(train.find("loss"))[0];
      EXPECT_NEAR(loss_of(logits, train.download(train.find("label"))), loss, 1e-6 * loss) << c.model.name();
    }
  }
}

// Nothing reads the reserve of a recurrent layer in an evaluation.
TEST(Models, EvaluationsKeepNoReserve) {
  CpuContext cpu(1);
  for (const char* name : {"bilstm", "lstm_scorer"}) {
    const Model model = find_model(name).with_words("batch:3 T:5");
    Tape train(cpu, Tape::preferences_for(Device::cpu)), evaluate(cpu, Tape::preferences_for(Device::cpu));
    model.train(train);
    model.evaluate(evaluate);
    train.plan();
    evaluate.plan();
    const auto layers = [](const Tape& tape, bool inference) {
      const Tape::Choices chosen = tape.choices();
      return std::ranges::count_if(chosen, [inference](const auto& node) {
        return node.first.starts_with("lstm ") && (node.first.find("inference:1") != std::string::npos) == inference;
      });
    };
    EXPECT_GT(layers(train, false), 0) << name;
    EXPECT_EQ(layers(train, true), 0) << name;
    EXPECT_GT(layers(evaluate, true), 0) << name;
    EXPECT_EQ(layers(evaluate, false), 0) << name;
  }
}

}  // namespace
}  // namespace duet
