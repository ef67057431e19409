// SPDX-License-Identifier: Apache-2.0
// Serving a checkpoint: the answers are those of the evaluation, and other checkpoints are refused.
#include "models/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/cpu_context.h"
#include "core/fill.h"
#include "models/data/digits.h"
#include "models/data/images.h"
#include "models/data/pairs.h"
#include "models/data/points.h"
#include "models/served_weights.h"
#include "ops/norm/batchnorm.h"

namespace duet {
namespace {
using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class Serving : public testing::Test {
 protected:
  Checkpoint trained() {
    Trainer toy(find_model("toy").with("batch", "16"), cpu_, Tape::preferences_for(Device::cpu), 3);
    toy.learning_rate(.01);
    toy.epoch(draw_points(3200, 1));
    accuracy_ = toy.accuracy(points_);
    return toy.checkpoint();
  }
  Predictor predictor(const Checkpoint& checkpoint, const Model& model) {
    return Predictor(served_model(checkpoint, model), cpu_, Tape::preferences_for(Device::cpu), checkpoint);
  }
  CpuContext cpu_{1};
  const Dataset points_ = draw_points(200, 2);
  double accuracy_ = 0;
};

TEST_F(Serving, AnswersAsTheEvaluationDoes) {
  const Checkpoint checkpoint = trained();
  EXPECT_EQ(served_model(checkpoint, find_model("toy")).label(), "f32/batch:1");
  Predictor toy = predictor(checkpoint, find_model("toy"));
  int correct = 0;
  for (int64_t i = 0; i < points_.size(); ++i) {
    const std::vector<float> x(points_.x.begin() + i * 10, points_.x.begin() + (i + 1) * 10);
    correct += (toy.logits(x, {}).at(0) > 0) == points_.label[static_cast<size_t>(i)];
  }
  EXPECT_EQ(static_cast<double>(correct) / 200, accuracy_);
  EXPECT_GT(accuracy_, .55);
  EXPECT_THAT(error_of([&] { toy.logits({1, 2}, {}); }), HasSubstr("2 numbers are given, the model takes 10"));
}

TEST_F(Serving, KeepsTheAttributesOfTheTraining) {
  const Model small = find_model("transformer_small")
                          .with_words("batch:4 tokens:8 layers:1 width:16 heads:2 inner:16 vocabulary:12 dropout:0");
  Trainer trainer(small, cpu_, Tape::preferences_for(Device::cpu), 3);
  const Checkpoint checkpoint = trainer.checkpoint();
  Predictor served = predictor(checkpoint, find_model("transformer_small"));
  EXPECT_EQ(served.form().batch, 1);
  EXPECT_EQ(served.form().features, 8);
  EXPECT_TRUE(served.form().pairs);
  EXPECT_EQ(served.logits({}, std::vector<int32_t>(8, 1), std::vector<int32_t>(8, 0)).size(), 8u * 12u);
  EXPECT_THAT(error_of([&] { served.logits({}, std::vector<int32_t>(8, 12), std::vector<int32_t>(8, 0)); }),
              HasSubstr("token 12; the model takes 0 to 11"));
}

// Each text goes on as if the model read all of it anew, also beyond the window, and after another text.
TEST_F(Serving, ContinuesTextsAsTheWholeEvaluationDoes) {
  for (const char* words : {"gpt2 batch:4 tokens:6 layers:2 width:16 heads:2 vocabulary:20 context:9",
                            "llama batch:4 tokens:6 layers:2 width:16 heads:4 kv_heads:2 inner:24 vocabulary:20"}) {
    const std::string text = words, name = text.substr(0, text.find(' '));
    const Model model = find_model(name).with_words(text.substr(text.find(' ')));
    const Checkpoint checkpoint = Trainer(model, cpu_, Tape::preferences_for(Device::cpu), 3).checkpoint();
    Predictor whole = predictor(checkpoint, find_model(name));
    TextPredictor continued(served_model(checkpoint, find_model(name)), cpu_, Tape::preferences_for(Device::cpu),
                            checkpoint);
    EXPECT_EQ(continued.window(), 6);
    EXPECT_EQ(continued.vocabulary(), 20);
    const std::vector<std::vector<int32_t>> prompts{{3, 1}, {4}, {1, 2, 3, 4, 5, 6, 7}};
    for (const std::vector<int32_t>& prompt : prompts) {
      std::vector<int32_t> tokens = prompt;
      for (int i = 0; i < 7; ++i) {
        const std::vector<double> got = continued.next(tokens);
        const size_t length = std::min<size_t>(tokens.size(), 6);
        std::vector<int32_t> window(tokens.end() - static_cast<int64_t>(length), tokens.end());
        window.resize(6, 0);
        const std::vector<double> all = whole.logits({}, window);
        const std::vector<double> want(all.begin() + static_cast<int64_t>(length - 1) * 20,
                                       all.begin() + static_cast<int64_t>(length) * 20);
        ASSERT_EQ(got.size(), want.size());
        for (size_t c = 0; c < want.size(); ++c) EXPECT_NEAR(got[c], want[c], 1e-5) << name << " token " << i;
        tokens.push_back(static_cast<int32_t>(std::max_element(want.begin(), want.end()) - want.begin()));
      }
    }
    EXPECT_THAT(error_of([&] { continued.next({20}); }), HasSubstr("token 20; the model takes 0 to 19"));
    EXPECT_THAT(error_of([&] { continued.next({}); }), HasSubstr("one token or more"));
  }
}

// The labels that fill an answer up behind its end are not counted.
TEST_F(Serving, AnAnswerIsComparedUpToItsEnd) {
  const Model small = find_model("transformer_small")
                          .with_words("batch:2 tokens:8 layers:1 width:16 heads:2 inner:16 vocabulary:12 dropout:0");
  Trainer trainer(small, cpu_, Tape::preferences_for(Device::cpu), 3);
  const std::vector<int32_t> source{1, 2, 3, 4, 5, 6, 7, 8}, answer{3, 4, 0, 0, 0, 0, 0, 0};
  const Dataset pair{.features = 8, .classes = 12, .x = {}, .token = source, .label = answer, .targets = 8};
  const std::vector<double> logits =
      predictor(trainer.checkpoint(), small).logits({}, source, {0, 3, 4, 0, 0, 0, 0, 0});
  double loss = 0;
  int correct = 0;
  for (size_t t = 0; t < 3; ++t) {
    const std::vector<double> row(logits.begin() + static_cast<int64_t>(t) * 12,
                                  logits.begin() + static_cast<int64_t>(t + 1) * 12);
    loss -= std::log(softmax_of(row)[static_cast<size_t>(answer[t])]) / 3;
    correct += std::max_element(row.begin(), row.end()) - row.begin() == answer[t];
  }
  EXPECT_NEAR(trainer.evaluate(pair).loss, loss, 1e-5);
  EXPECT_DOUBLE_EQ(trainer.evaluate(pair).accuracy, correct / 3.);
}

double at(const std::vector<double>& w, size_t row, size_t col, size_t cols) { return w[row * cols + col]; }

// Largest errors of the logits of an mlp with 8 bits: each rounded value is off by half a level at most, and the errors
// of a layer's inputs and weights reach its outputs by the absolute values that they are multiplied with.
std::vector<double> int8_errors(const Checkpoint& wide, const Checkpoint& narrow, const std::vector<double>& x) {
  std::vector<double> value = x, error(x.size(), 0);
  for (const char* layer : {"fc1", "fc2"}) {
    const std::string name = layer;
    const std::vector<double> w = values_of(wide, name + ".weight"), bias = values_of(wide, name + ".bias"),
                              scale = values_of(narrow, name + ".scale");
    const double half = values_of(narrow, name + ".input_scale")[0] / 2;
    const size_t in = value.size();
    std::vector<double> y, e;
    for (size_t o = 0; o < bias.size(); ++o) {
      double sum = bias[o], off = 0;
      for (size_t i = 0; i < in; ++i) {
        const double weight = at(w, o, i, in), input_off = error[i] + half;
        sum += weight * value[i];
        off += std::abs(weight) * input_off + scale[o] / 2 * (std::abs(value[i]) + input_off);
      }
      y.push_back(name == "fc1" ? std::max(0.0, sum) : sum);
      e.push_back(off);
    }
    value = y;
    error = e;
  }
  return error;
}

TEST_F(Serving, IntegersOf8BitsAnswerWithinTheirRounding) {
  const Dataset digits = draw_digits(2000, 1), test = draw_digits(100, 2);
  Trainer mlp(find_model("mlp").with("batch", "20"), cpu_, Tape::preferences_for(Device::cpu), 3);
  mlp.learning_rate(.05);
  mlp.epoch(digits);
  const Checkpoint checkpoint = mlp.checkpoint();
  const Model model = served_model(checkpoint, find_model("mlp")), narrow_model = model.with("int8", "1");
  EXPECT_EQ(model.label(), "f32/batch:1");
  Predictor wide(model, cpu_, Tape::preferences_for(Device::cpu), checkpoint),
      narrow(narrow_model, cpu_, Tape::preferences_for(Device::cpu), checkpoint);
  Checkpoint adapted = checkpoint;
  narrow_model.adapt(adapted);
  EXPECT_EQ(adapted.tensors.at("fc1.weight").dtype, DType::i8);
  int same = 0;
  double used = 0;  // of the bound
  for (int64_t s = 0; s < test.size(); ++s) {
    const std::vector<float> x(test.x.begin() + s * 784, test.x.begin() + (s + 1) * 784);
    const std::vector<double> want = wide.logits(x, {}), got = narrow.logits(x, {}),
                              error = int8_errors(checkpoint, adapted, {x.begin(), x.end()});
    for (size_t c = 0; c < want.size(); ++c) {
      EXPECT_LE(std::abs(got[c] - want[c]), error[c] + 1e-4) << "sample " << s << " class " << c;
      used = std::max(used, std::abs(got[c] - want[c]) / error[c]);
    }
    same += std::max_element(want.begin(), want.end()) - want.begin() ==
            std::max_element(got.begin(), got.end()) - got.begin();
  }
  EXPECT_GT(used, 1e-3);  // they are not the same numbers
  EXPECT_GE(same, 95);
  Tape tape(cpu_, Tape::preferences_for(Device::cpu));
  EXPECT_THAT(error_of([&] { narrow_model.train(tape); }), HasSubstr("only an inference"));
  EXPECT_THAT(error_of([&] { find_model("mlp").with_words("bf16 int8:1"); }), HasSubstr("with int8 f32 is allowed"));
}

// --- batch normalisation folded into convolutions --------------------------------------------------------------------

// Statistics, gamma and beta as long training might leave them: none of them is what a fold could leave out unseen.
void draw_normalisations(Checkpoint& checkpoint) {
  uint64_t key = 1;
  for (auto& [name, entry] : checkpoint.tensors) {
    const auto draw = [&, e = &entry](Fill fill) {
      fill_values(e->bytes.data(), e->dtype, static_cast<int64_t>(e->bytes.size()) / size_of(e->dtype), fill,
                  FillMode::values, fill_key(key++, 0));
    };
    if (name.ends_with(".running_mean") || name.ends_with(".beta")) draw(Fill::uniform(-.5, .5));
    if (name.ends_with(".running_var")) draw(Fill::uniform(.1, 2));
    if (name.ends_with(".gamma")) draw(Fill::uniform(.5, 1.5));
  }
}

// y of batchnorm_inference's reference in double, with the layer's parameters and statistics, for x (channels, terms).
std::vector<double> normalised(const Checkpoint& checkpoint, const std::string& layer, const std::vector<double>& x) {
  CpuContext cpu(1);
  Tape tape(cpu, {"reference"});
  const auto channels = static_cast<int64_t>(values_of(checkpoint, layer + ".gamma").size()),
             terms = static_cast<int64_t>(x.size()) / channels;
  const auto given = [&](const char* name, const Shape& shape) { return tape.input(name, DType::f32, shape); };
  const std::vector<Var> slots{given("x", {1, channels, terms, 1}), given(".gamma", {channels}),
                               given(".beta", {channels}), given(".running_mean", {channels}),
                               given(".running_var", {channels})};
  BatchNormInference problem;
  problem.n = problem.w = 1;
  problem.c = channels;
  problem.h = terms;
  tape.output("y", tape.add(problem, slots));
  tape.plan();
  for (const auto& [name, var] : tape.inputs()) {
    const std::vector<double> values = name == "x" ? x : values_of(checkpoint, layer + name);
    tape.upload(var, std::span<const float>(std::vector<float>(values.begin(), values.end())));
  }
  cpu.enter([&] { tape.run(); });
  return tape.download(tape.find("y"));
}

const char* const kSmallResNet = "batch:4 side:32 classes:10 width:4";

// Batch normalisation of an inference is affine in x, channel by channel: y(x) = a x + b. What its reference makes of 0
// is the bias, and what it makes of the filter is that bias and the filter as folded; each but for one rounding.
TEST_F(Serving, AFoldIsTheAffineMapOfTheReference) {
  const Model model = find_model("resnet50").with_words(kSmallResNet);
  Checkpoint wide = Trainer(model, cpu_, Tape::preferences_for(Device::cpu), 3).checkpoint();
  draw_normalisations(wide);
  Checkpoint folded = wide;
  model.with(kFolded, "1").adapt(folded);
  const double u = unit_roundoff(DType::f32);
  int layers = 0;
  for (const auto& [name, entry] : wide.tensors) {
    if (!name.ends_with(".running_var")) continue;
    const std::string layer = name.substr(0, name.rfind('.'));
    const std::vector<double> w = values_of(wide, layer + ".weight"),
                              of_zero = normalised(wide, layer, std::vector<double>(w.size())),
                              of_filter = normalised(wide, layer, w), got = values_of(folded, layer + ".weight"),
                              bias = values_of(folded, layer + ".bias");
    const size_t terms = w.size() / bias.size();
    ASSERT_EQ(got.size(), w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      const double b = of_zero[i], a_w = of_filter[i] - b, exact = 0x1p-50 * (1 + std::abs(b));
      ASSERT_LE(std::abs(bias[i / terms] - b), u * std::abs(b) + exact) << layer << " channel " << i / terms;
      ASSERT_LE(std::abs(got[i] - a_w), u * std::abs(a_w) + exact) << layer << " element " << i;
    }
    for (const char* gone : {".gamma", ".beta", ".running_mean", ".running_var"})
      EXPECT_FALSE(folded.tensors.contains(layer + gone)) << layer << gone;
    ++layers;
  }
  EXPECT_EQ(layers, 53);
}

// Logits of the folded network in f32, and of the network as it was trained, against the latter's reference in double.
// Either is off by a multiple of u times the largest logit; kMeasured is the largest of both (2-core AVX-512 VM, g++
// 12.2, 2026-11-23), and 4 allows for other orders of summation.
TEST_F(Serving, AFoldedNetworkAnswersAsItWasTrained) {
  constexpr double kMeasured = 43, kMargin = 4;
  for (const char* form : {"", " layout:nhwc", " head_only:1"}) {
    SCOPED_TRACE(form);
    Checkpoint checkpoint = Trainer(find_model("resnet50").with_words(std::string(kSmallResNet) + form), cpu_,
                                    Tape::preferences_for(Device::cpu), 3)
                                .checkpoint();
    draw_normalisations(checkpoint);
    const Model model = served_model(checkpoint, find_model("resnet50")), plain = model.with(kFolded, "0");
    EXPECT_NE(model.label().find("folded:1"), std::string::npos) << model.label();
    Predictor reference(plain, cpu_, {"reference"}, checkpoint),
        unfolded(plain, cpu_, Tape::preferences_for(Device::cpu), checkpoint),
        folded(model, cpu_, Tape::preferences_for(Device::cpu), checkpoint);
    const Dataset images = draw_images(4, 5);
    for (int64_t s = 0; s < images.size(); ++s) {
      const auto begin = images.x.begin() + s * images.features;
      const std::vector<float> x(begin, begin + images.features);
      const std::vector<double> want = reference.logits(x, {});
      double scale = 0;
      for (const double v : want) scale = std::max(scale, std::abs(v));
      for (Predictor* predictor : {&unfolded, &folded}) {
        const std::vector<double> got = predictor->logits(x, {});
        for (size_t c = 0; c < want.size(); ++c) {
          const double ratio = std::abs(got[c] - want[c]) / (unit_roundoff(DType::f32) * scale);
          EXPECT_LE(ratio, kMargin * kMeasured) << (predictor == &folded ? "folded" : "unfolded") << " class " << c;
        }
      }
    }
  }
}

TEST_F(Serving, RefusesToFoldWhatIsNoNormalisation) {
  const Model model = find_model("resnet50").with_words(std::string(kSmallResNet) + " folded:1");
  const Checkpoint good = Trainer(model.with(kFolded, "0"), cpu_, Tape::preferences_for(Device::cpu), 3).checkpoint();
  const auto refusal = [&](const std::function<void(Checkpoint&)>& change) {
    Checkpoint c = good;
    change(c);
    return error_of([&] { model.adapt(c); });
  };
  EXPECT_EQ(refusal([](Checkpoint&) {}), "no error");
  EXPECT_THAT(refusal([](Checkpoint& c) { c.tensors.erase("conv1.gamma"); }), HasSubstr("no tensor conv1.gamma"));
  EXPECT_THAT(refusal([](Checkpoint& c) {
                set_values(c, "conv1.gamma", DType::f32, {3}, {1, 1, 1});
              }),
              HasSubstr("tensors of conv1 are of 4 and 3 channels"));
  EXPECT_THAT(refusal([](Checkpoint& c) {
                set_values(c, "conv1.running_var", DType::f32, {4}, {1, -1, 1, 1});
              }),
              HasSubstr("conv1.running_var has -1, which is no variance"));
  Tape tape(cpu_, Tape::preferences_for(Device::cpu));
  EXPECT_THAT(error_of([&] { model.train(tape); }), HasSubstr("only an inference"));
}

TEST(Ratings, RefusesWhatNoUserIsAnsweredWith) {
  const Model& model = find_model("recommender");
  const auto refusal = [&](const char* words) { return error_of([&] { model.with_words(words); }); };
  EXPECT_EQ(refusal("items:7 top:7"), "no error");
  EXPECT_EQ(refusal("bf16 top:5"), "no error");
  EXPECT_THAT(refusal("items:7 top:8"), HasSubstr("top: 0 to 7, the items, are allowed; is 8"));
  EXPECT_THAT(refusal("top:-1"), HasSubstr("is -1"));
  EXPECT_THAT(refusal("top:5 batch:65537"), HasSubstr("65536"));
  EXPECT_THAT(refusal("items:-5"), HasSubstr("items"));
  EXPECT_THAT(refusal("bf16"), HasSubstr("dtype bf16: allowed is f32, and of an inference with top bf16 and f16"));
  EXPECT_THAT(error_of([&] { model.with_words("top:5").require_trained(); }),
              HasSubstr("only an inference finds items"));
}

TEST_F(Serving, RefusesOtherCheckpoints) {
  const Checkpoint good = trained();
  const auto refusal = [&](const std::function<void(Checkpoint&)>& change, const char* model = "toy") {
    Checkpoint c = good;
    change(c);
    return error_of([&] { predictor(c, find_model(model)); });
  };
  EXPECT_EQ(refusal([](Checkpoint&) {}), "no error");
  EXPECT_THAT(refusal([](Checkpoint&) {}, "lenet"), HasSubstr("is of model 'toy', not of lenet"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.metadata["version"] = "2"; }), HasSubstr("of version '2'; this program"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.metadata["case"] = "f32/bach:3"; }), HasSubstr("'bach'"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.tensors.erase("fc2.bias"); }), HasSubstr("no tensor fc2.bias"));
  EXPECT_THAT(refusal([](Checkpoint& c) { c.tensors.at("fc1.weight").shape = {100}; }),
              HasSubstr("fc1.weight is f32 [100]"));
  Checkpoint old = good;  // a file of a program that wrote no attributes
  old.metadata.erase("case");
  old.metadata.erase("version");
  EXPECT_EQ(predictor(old, find_model("toy")).form().batch, 1);
}

}  // namespace
}  // namespace duet
