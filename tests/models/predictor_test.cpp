// SPDX-License-Identifier: Apache-2.0
// Serving a checkpoint: the answers are those of the evaluation, and other checkpoints are refused.
#include "models/predictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/cpu_context.h"
#include "models/data/pairs.h"
#include "models/data/points.h"

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
