// SPDX-License-Identifier: Apache-2.0
// Training: what is learnt, what a checkpoint holds, and which faults stop it.
#include "models/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/cpu_context.h"
#include "core/recorder.h"
#include "models/data/images.h"
#include "models/data/pairs.h"
#include "models/data/points.h"
#include "models/data/reviews.h"
#include "models/data/text.h"

namespace duet {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class Training : public testing::Test {
 protected:
  std::unique_ptr<Trainer> trainer(const std::string& model, uint64_t seed = 3) {
    return std::make_unique<Trainer>(find_model(model), cpu_, Tape::preferences_for(Device::cpu), seed);
  }
  std::unique_ptr<Trainer> mixed_lenet(const char* dtype = "f16", double max_norm = 0) {
    return std::make_unique<Trainer>(find_model("lenet").with("dtype", dtype).with("mixed", "1"), cpu_,
                                     Tape::preferences_for(Device::cpu), 3, TrainingOptions{.max_norm = max_norm});
  }
  CpuContext cpu_{1};
};

TEST_F(Training, ContinuesFromACheckpointAsIfItHadNotStopped) {
  for (const char* model : {"toy", "lenet"}) {
    const Dataset data = std::string(model) == "toy" ? draw_points(640, 1) : draw_images(32, 1);
    const auto whole = trainer(model), first = trainer(model), second = trainer(model);
    whole->epoch(data);
    whole->epoch(data);
    first->epoch(data);
    second->restore(first->checkpoint());
    EXPECT_EQ(second->epochs(), 1);
    EXPECT_EQ(second->steps(), first->steps());
    EXPECT_EQ(second->accuracy(data), first->accuracy(data));
    second->epoch(data);
    const Checkpoint want = whole->checkpoint(), got = second->checkpoint();
    EXPECT_EQ(want.metadata, got.metadata);
    for (const auto& [name, t] : want.tensors) EXPECT_EQ(t.bytes, got.tensors.at(name).bytes) << model << ": " << name;
    EXPECT_NE(want.tensors.at("fc1.weight").bytes, first->checkpoint().tensors.at("fc1.weight").bytes);
  }
}

TEST_F(Training, MixedPrecisionContinuesWithItsLossScale) {
  const Dataset data = draw_images(32, 1);
  const auto whole = mixed_lenet(), first = mixed_lenet(), second = mixed_lenet();
  whole->epoch(data);
  whole->epoch(data);
  first->epoch(data);
  second->restore(first->checkpoint());
  EXPECT_EQ(second->accuracy(data), first->accuracy(data));
  second->epoch(data);
  const Checkpoint want = whole->checkpoint(), got = second->checkpoint();
  for (const char* name : {"loss_scale", "good_steps", "master", "velocity", "fc1.weight"})
    EXPECT_EQ(want.tensors.at(name).bytes, got.tensors.at(name).bytes) << name;
  EXPECT_NE(want.tensors.at("good_steps").bytes, first->checkpoint().tensors.at("good_steps").bytes);
}

// The reported loss is not scaled: it equals the loss in f32 up to some roundings to a half.
TEST_F(Training, MixedPrecisionLearnsAsF32) {
  const Dataset data = draw_images(64, 1);
  const auto plain = trainer("lenet");
  double loss = 0;
  for (int i = 0; i < 3; ++i) loss = plain->epoch(data);
  for (const auto& [dtype, u] : {std::pair{"f16", unit_roundoff(DType::f16)}, {"bf16", unit_roundoff(DType::bf16)}}) {
    const auto mixed = mixed_lenet(dtype);
    double got = 0;
    for (int i = 0; i < 3; ++i) got = mixed->epoch(data);
    EXPECT_NEAR(got, loss, 10 * u * loss) << dtype;
  }
}

TEST_F(Training, AStepWhoseScaledGradientsOverflowIsLeftOut) {
  const Dataset data = draw_images(32, 1);
  for (const double max_norm : {0., 1.}) {
    const auto lenet = mixed_lenet("f16", max_norm);
    lenet->epoch(data);
    Checkpoint high = lenet->checkpoint();
    store_double(high.tensors.at("loss_scale").bytes.data(), DType::f32, 0, 0x1p100);
    lenet->restore(high);
    EXPECT_TRUE(std::isfinite(lenet->epoch(data)));
    const Checkpoint after = lenet->checkpoint();
    EXPECT_EQ(load_as_double(after.tensors.at("loss_scale").bytes.data(), DType::f32, 0), 0x1p92);  // 8 steps
    for (const char* name : {"master", "velocity", "conv1.weight"})
      EXPECT_EQ(after.tensors.at(name).bytes, high.tensors.at(name).bytes) << name;

    store_double(high.tensors.at("loss_scale").bytes.data(), DType::f32, 0, underflow(DType::f32));
    lenet->restore(high);
    EXPECT_THAT(error_of([&] { lenet->epoch(data); }), HasSubstr("the loss scale has fallen to 1.18e-38 by step 16"));
  }
}

// Another training of the same network: with its parameters, but with an optimiser and counts of its own.
TEST_F(Training, BeginsWithTheParametersOfACheckpoint) {
  const Dataset data = draw_images(32, 1);
  const auto first = trainer("lenet"), second = trainer("lenet", 4);
  first->epoch(data);
  const Checkpoint from = first->checkpoint();
  EXPECT_TRUE(second->begin_with(from).empty());
  EXPECT_EQ(second->epochs(), 0);
  EXPECT_EQ(second->accuracy(data), first->accuracy(data));
  const Checkpoint got = second->checkpoint();
  for (const auto& [name, t] : from.tensors)
    EXPECT_EQ(got.tensors.at(name).bytes == t.bytes, name != "velocity") << name;
  EXPECT_THAT(error_of([&] { trainer("toy")->begin_with(from); }), HasSubstr("of model 'lenet', not of toy"));
  Checkpoint larger = from;
  larger.tensors["conv3.weight"] = from.tensors.at("conv1.weight");
  EXPECT_THAT(error_of([&] { second->begin_with(larger); }),
              HasSubstr("tensor conv3.weight is not one of the model's"));
}

// The f32 parameters of mixed precision: those of the checkpoint, or else what its halves hold.
TEST_F(Training, MixedPrecisionBeginsWithTheParametersOfACheckpoint) {
  const Dataset data = draw_images(32, 1);
  const auto first = mixed_lenet("bf16"), second = mixed_lenet("bf16"), third = mixed_lenet("bf16");
  first->epoch(data);
  Checkpoint from = first->checkpoint();
  second->begin_with(from);
  EXPECT_EQ(second->checkpoint().tensors.at("master").bytes, from.tensors.at("master").bytes);
  from.tensors.erase("master");
  third->begin_with(from);
  const Checkpoint got = third->checkpoint();
  const auto& master = got.tensors.at("master");
  const auto& bias = from.tensors.at("fc3.bias");
  const auto value = [](const Checkpoint::Entry& e, int64_t i) { return load_as_double(e.bytes.data(), e.dtype, i); };
  std::vector<double> masters(master.bytes.size() / sizeof(float));
  for (size_t i = 0; i < masters.size(); ++i) masters[i] = value(master, static_cast<int64_t>(i));
  std::vector<double> biases(bias.bytes.size() / 2);
  for (size_t i = 0; i < biases.size(); ++i) biases[i] = value(bias, static_cast<int64_t>(i));
  EXPECT_NE(std::search(masters.begin(), masters.end(), biases.begin(), biases.end()), masters.end());
}

// Fine-tuning: all but the last layer is the checkpoint's, and stays so; that has other classes here.
TEST_F(Training, ATrainedNetworkGetsAnotherHead) {
  const Model whole = find_model("resnet50").with_words("batch:2 side:32 classes:5 width:1");
  const Trainer from(whole, cpu_, Tape::preferences_for(Device::cpu), 3);
  const Checkpoint trained = from.checkpoint();
  Trainer same(whole.with("head_only", "1"), cpu_, Tape::preferences_for(Device::cpu), 4);
  EXPECT_TRUE(same.begin_with(trained).empty());
  EXPECT_EQ(same.checkpoint().tensors.at("fc.weight").bytes, trained.tensors.at("fc.weight").bytes);
  const Model tuned = whole.with({{"head_only", "1"}, {"classes", "3"}});
  Trainer other(tuned, cpu_, Tape::preferences_for(Device::cpu), 4);
  EXPECT_THAT(other.begin_with(trained), testing::ElementsAre("fc.weight", "fc.bias"));
  EXPECT_EQ(other.checkpoint().tensors.at("conv1.weight").bytes, trained.tensors.at("conv1.weight").bytes);
  Trainer again(tuned, cpu_, Tape::preferences_for(Device::cpu), 5);
  EXPECT_TRUE(again.begin_with(other.checkpoint()).empty());
  EXPECT_EQ(again.checkpoint().tensors.at("fc.weight").bytes, other.checkpoint().tensors.at("fc.weight").bytes);
  Trainer all(whole.with("classes", "3"), cpu_, Tape::preferences_for(Device::cpu), 4);
  EXPECT_THAT(error_of([&] { all.begin_with(trained); }), HasSubstr("tensor fc.weight is f32 [5, "));
}

// The offset of dropout is not stored as a tensor: it follows from the number of steps.
TEST_F(Training, DropoutContinuesToo) {
  Dataset data{.features = 784, .classes = 10, .x = std::vector<float>(784 * 64, .5f), .token = {}, .label = {}};
  for (int i = 0; i < 64; ++i) {
    data.label.push_back(i % 10);
    data.x[static_cast<size_t>(784 * i + i)] = 1;
  }
  const auto whole = trainer("mlp"), first = trainer("mlp"), second = trainer("mlp");
  whole->epoch(data);
  first->epoch(data);
  second->restore(first->checkpoint());
  EXPECT_EQ(whole->epoch(data), second->epoch(data));
}

TEST_F(Training, RefusesACheckpointOfAnotherModel) {
  const auto lenet = trainer("lenet");
  const Checkpoint good = lenet->checkpoint();
  const auto refused = [&](const std::function<void(Checkpoint&)>& change) {
    Checkpoint c = good;
    change(c);
    const std::string error = error_of([&] { lenet->restore(c); });
    EXPECT_EQ(lenet->checkpoint().tensors.at("conv1.weight").bytes, good.tensors.at("conv1.weight").bytes);
    return error;
  };
  EXPECT_THAT(error_of([&] { trainer("toy")->restore(good); }), AllOf(HasSubstr("lenet"), HasSubstr("not of toy")));
  EXPECT_THAT(error_of([&] { trainer("lenet", 4)->restore(good); }), HasSubstr("seed 3, not 4"));
  EXPECT_THAT(refused([](Checkpoint& c) { c.tensors.at("conv2.bias").dtype = DType::i32; }),
              AllOf(HasSubstr("conv2.bias is i32 [16]"), HasSubstr("f32 [16]")));
  EXPECT_THAT(refused([](Checkpoint& c) {
                c.tensors.at("fc3.weight").shape = {84, 10};
              }),
              AllOf(HasSubstr("fc3.weight is f32 [84, 10]"), HasSubstr("f32 [10, 84]")));
  EXPECT_THAT(refused([](Checkpoint& c) { c.tensors.erase("velocity"); }), HasSubstr("no tensor velocity"));
  EXPECT_THAT(refused([](Checkpoint& c) { c.tensors["extra"] = {DType::f32, {0}, {}}; }), HasSubstr("tensor extra"));
  EXPECT_THAT(refused([](Checkpoint& c) { c.metadata["epochs"] = "-1"; }), HasSubstr("epochs is '-1'"));
  EXPECT_THAT(refused([](Checkpoint& c) { c.metadata.erase("steps"); }), HasSubstr("steps"));
}

TEST_F(Training, ALossThatIsNotFiniteNamesItsTensorAndChangesNothing) {
  Dataset data = draw_points(640, 1);
  const auto toy = trainer("toy");
  toy->epoch(data);
  const Checkpoint before = toy->checkpoint();
  data.x.assign(data.x.size(), NAN);
  EXPECT_THAT(error_of([&] { toy->epoch(data); }),
              AllOf(HasSubstr("the loss is NaN in step 21"), HasSubstr("where x is the first")));
  EXPECT_EQ(toy->checkpoint().tensors.at("fc1.weight").bytes, before.tensors.at("fc1.weight").bytes);
  EXPECT_EQ(toy->checkpoint().tensors.at("m").bytes, before.tensors.at("m").bytes);

  Checkpoint broken = before;
  store_double(broken.tensors.at("fc2.bias").bytes.data(), DType::f32, 0, NAN);
  toy->restore(broken);
  EXPECT_THAT(error_of([&] { toy->epoch(draw_points(640, 1)); }), HasSubstr("where fc2.bias is the first"));
  broken = before;
  for (int64_t i = 0; i < 10; ++i) store_double(broken.tensors.at("fc2.weight").bytes.data(), DType::f32, i, 3e38);
  for (int64_t i = 0; i < 10; ++i) store_double(broken.tensors.at("fc1.bias").bytes.data(), DType::f32, i, 100);
  toy->restore(broken);
  EXPECT_THAT(error_of([&] { toy->epoch(draw_points(640, 1)); }),
              HasSubstr("where y of linear f32/n:32/in:10/out:1 is"));
}

TEST_F(Training, RefusesDataOfAnotherKind) {
  EXPECT_THAT(error_of([&] { trainer("toy")->epoch(draw_reviews(64, 10, 1)); }), HasSubstr("tokens"));
  EXPECT_THAT(error_of([&] { trainer("toy")->epoch(draw_images(64, 1)); }), HasSubstr("3072 features"));
}

TEST_F(Training, RefusesReviewsOfAnotherLength) {
  Trainer trainer(find_model("bilstm").with("batch", "32").with("T", "16"), cpu_, Tape::preferences_for(Device::cpu),
                  3);
  const Dataset good = draw_reviews(64, 16, 1);
  const auto refused = [&](int64_t tokens) {
    Dataset data = good;
    data.token.resize(static_cast<size_t>(tokens));
    return error_of([&] { trainer.epoch(data); });
  };
  EXPECT_THAT(error_of([&] { trainer.epoch(draw_reviews(64, 17, 1)); }), HasSubstr("17 tokens a sample, the model 16"));
  EXPECT_THAT(refused(63 * 16), HasSubstr("1008 tokens for 64 samples: every sample has 16"));  // a review has no token
  EXPECT_THAT(refused(64 * 16 + 1), HasSubstr("1025 tokens for 64 samples"));                   // a review has 17
}

TEST_F(Training, RefusesLabelsAndTokensThatTheModelDoesNotHave) {
  Dataset images = draw_images(32, 1);
  images.label[7] = 10;
  EXPECT_THAT(error_of([&] { trainer("cifar_cnn")->epoch(images); }),
              HasSubstr("label 10 at position 7; the model takes 0 to 9"));
  Dataset points = draw_points(64, 1);
  points.label[3] = 2;
  EXPECT_THAT(error_of([&] { trainer("toy")->accuracy(points); }), HasSubstr("label 2 at position 3"));
  points.label[3] = -1;
  EXPECT_THAT(error_of([&] { trainer("toy")->accuracy(points); }), HasSubstr("label -1 at position 3"));
  Model small = find_model("gpt2");
  for (const auto& [name, value] : {std::pair("batch", "4"),
                                    {"tokens", "8"},
                                    {"context", "8"},
                                    {"layers", "1"},
                                    {"heads", "1"},
                                    {"width", "8"},
                                    {"vocabulary", "64"}})
    small = small.with(name, value);
  Trainer language(small, cpu_, Tape::preferences_for(Device::cpu), 3);
  Dataset text = draw_text(8, 8, 1);
  EXPECT_THAT(error_of([&] { language.epoch(text); }), AllOf(HasSubstr("label"), HasSubstr("the model takes 0 to 63")));
  for (int32_t& label : text.label) label = 0;
  EXPECT_THAT(error_of([&] { language.epoch(text); }), AllOf(HasSubstr("token"), HasSubstr("the model takes 0 to 63")));
}

// No loss is computed after the last update of an epoch: parameters that it made infinite must not become a checkpoint.
TEST_F(Training, AnEpochDoesNotEndWithParametersThatAreNotFinite) {
  const auto t = trainer("toy");
  t->learning_rate(std::numeric_limits<double>::infinity());
  EXPECT_THAT(error_of([&] { t->epoch(draw_points(6400, 1)); }), HasSubstr("is not finite"));
}

// Four batches of 8 samples make the update of one batch of 32, but for roundings.
TEST_F(Training, AccumulatedGradientsAreThoseOfALargerBatch) {
  const Dataset data = draw_points(640, 1);
  const Tape::Preferences preferences = Tape::preferences_for(Device::cpu);
  Trainer whole(find_model("toy").with("batch", "32"), cpu_, preferences, 3);
  Trainer parts(find_model("toy").with("batch", "8"), cpu_, preferences, 3, {.accumulate = 4});
  EXPECT_NEAR(whole.epoch(data), parts.epoch(data), 1e-5);
  EXPECT_EQ(parts.updates(), 20);
  EXPECT_EQ(parts.steps(), 80);
  const Checkpoint want = whole.checkpoint(), got = parts.checkpoint();
  for (const auto& [name, t] : want.tensors) {
    if (!name.starts_with("fc")) continue;
    for (int64_t i = 0; i < static_cast<int64_t>(t.bytes.size()) / 4; ++i)
      EXPECT_NEAR(load_as_double(t.bytes.data(), DType::f32, i),
                  load_as_double(got.tensors.at(name).bytes.data(), DType::f32, i), 1e-5)
          << name << " " << i;
  }
  EXPECT_THAT(error_of([&] { Trainer(find_model("toy"), cpu_, preferences, 3, {.accumulate = 21}).epoch(data); }),
              HasSubstr("640 samples are fewer than the 21 batches of 32 that make an update"));
}

// After one update of SGD without momentum before it, parameters have moved by the rate times the clipped gradient.
TEST_F(Training, GradientsAreClippedToANorm) {
  const Dataset data = draw_images(4, 1);
  const auto moved = [&](double max_norm) {
    Trainer t(find_model("lenet"), cpu_, Tape::preferences_for(Device::cpu), 3, {.max_norm = max_norm});
    t.learning_rate(1);
    const Checkpoint before = t.checkpoint();
    t.epoch(data);
    const Checkpoint after = t.checkpoint();
    double sum = 0;
    for (const auto& [name, tensor] : before.tensors)
      if (name.starts_with("fc") || name.starts_with("conv"))
        for (int64_t i = 0; i < static_cast<int64_t>(tensor.bytes.size()) / 4; ++i) {
          const double d = load_as_double(after.tensors.at(name).bytes.data(), DType::f32, i) -
                           load_as_double(tensor.bytes.data(), DType::f32, i);
          sum += d * d;
        }
    return std::sqrt(sum);
  };
  EXPECT_GT(moved(0), .5);
  EXPECT_NEAR(moved(.25), .25, 1e-4);
}

// A profile shows the phase of an update whether or not its gradients are clipped between two of its ops.
TEST_F(Training, AnUpdateIsARangeHoweverItClips) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "training.XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  for (const double max_norm : {0., 1.}) {
    const auto lenet = mixed_lenet("f16", max_norm);
    const std::string part = folder / "part", trace = folder / "trace.json";
    recorder::start(part, "training");
    lenet->epoch(draw_images(12, 1));
    EXPECT_EQ(recorder::finish(), "");
    recorder::write_trace({part}, trace, {});
    const auto written = nlohmann::json::parse(std::ifstream(trace));
    int updates = 0;
    for (const auto& event : written.at("traceEvents")) updates += event.value("name", "") == kOptimiser;
    EXPECT_EQ(updates, 3) << "max_norm " << max_norm;
  }
  fs::remove_all(folder);
}

// Mixed precision in f16: what an update moves the parameters by, which is the gradient, is what clipping that of an
// update without clipping by hand gives, whatever the scale and however many batches make the update. All of it is in
// f32 after the gradients are unscaled.
TEST_F(Training, GradientsOfAScaledLossAreClippedToTheirOwnNorm) {
  const Dataset data = draw_images(8, 1);
  const auto values = [](const Checkpoint& c, const char* name) {
    const Checkpoint::Entry& entry = c.tensors.at(name);
    std::vector<double> all;
    for (int64_t i = 0; i < static_cast<int64_t>(entry.bytes.size()) / 4; ++i)
      all.push_back(load_as_double(entry.bytes.data(), entry.dtype, i));
    return all;
  };
  const auto moved = [&](int64_t accumulate, double scale, double max_norm) {
    Trainer t(find_model("lenet").with_words("f16 mixed:1").with("batch", std::to_string(8 / accumulate)), cpu_,
              Tape::preferences_for(Device::cpu), 3, {.accumulate = accumulate, .max_norm = max_norm});
    Checkpoint before = t.checkpoint();
    store_double(before.tensors.at("loss_scale").bytes.data(), DType::f32, 0, scale);
    t.restore(before);
    t.learning_rate(1);
    t.epoch(data);
    const Checkpoint after = t.checkpoint();
    EXPECT_EQ(values(after, "good_steps"), std::vector<double>{1}) << "a scale of " << scale << " is too large";
    std::vector<double> by = values(after, "master");
    const std::vector<double> from = values(before, "master");
    for (size_t i = 0; i < by.size(); ++i) by[i] -= from[i];
    return std::pair(by, std::abs(*std::max_element(from.begin(), from.end(),
                                                    [](double a, double b) { return std::abs(a) < std::abs(b); })));
  };
  for (const int64_t accumulate : {1, 2})
    for (const double scale : {65536., 1024.}) {
      const auto [gradient, largest] = moved(accumulate, scale, 0);
      const double norm = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.));
      ASSERT_GT(norm, .1);
      const double bound = 4 * unit_roundoff(DType::f32) * (largest + norm);  // parameters are rounded before and after
      for (const double max_norm : {norm / 8, norm * 2}) {
        const auto [got, same] = moved(accumulate, scale, max_norm);
        double worst = 0;
        for (size_t i = 0; i < gradient.size(); ++i)
          worst = std::max(worst, std::abs(got[i] - gradient[i] * std::min(1., max_norm / (norm + 1e-6))));
        EXPECT_LE(worst, bound) << accumulate << " batches, scale " << scale << ", clipped to " << max_norm;
      }
    }
}

TEST_F(Training, AScheduleContinuesAfterACheckpoint) {
  const Dataset data = draw_points(640, 1);
  const Schedule schedule{.kind = Schedule::Kind::cosine, .base = .01, .warm_up = 5, .updates = 40};
  const auto whole = trainer("toy"), first = trainer("toy"), second = trainer("toy");
  for (Trainer* t : {whole.get(), first.get(), second.get()}) t->schedule(schedule);
  whole->epoch(data);
  EXPECT_NEAR(whole->learning_rate(), schedule.at(19), 1e-9);
  whole->epoch(data);
  first->epoch(data);
  second->restore(first->checkpoint());
  second->epoch(data);
  const Checkpoint want = whole->checkpoint(), got = second->checkpoint();
  EXPECT_EQ(want.metadata, got.metadata);
  for (const auto& [name, t] : want.tensors) EXPECT_EQ(t.bytes, got.tensors.at(name).bytes) << name;
}

// A measurement may end otherwise the next time: a training that is resumed runs what its checkpoint names.
TEST_F(Training, KeepsTheMeasuredChoiceOfImplementations) {
  const auto chosen_by = [&](Choice choice, const Tape::Choices& known) {
    const Trainer trainer(find_model("toy"), cpu_, Tape::preferences_for(Device::cpu), 3,
                          {.choice = choice, .chosen = known});
    EXPECT_EQ(recorded_choices(trainer.checkpoint()).empty(), choice == Choice::order);
    return trainer.tape().choices();
  };
  const Tape::Choices measured = chosen_by(Choice::measured, {});
  Tape::Choices known;
  for (const auto& [key, name] : measured)
    if (key.starts_with("linear ")) known[key] = name == "cpu.tuned" ? "cpu.openblas" : "cpu.tuned";
  ASSERT_FALSE(known.empty());
  const Tape::Choices again = chosen_by(Choice::measured, known);
  for (const auto& [key, name] : known) EXPECT_EQ(again.at(key), name) << key;
  for (auto& [key, name] : known) name = "cuda.tuned";
  EXPECT_EQ(chosen_by(Choice::order, known), chosen_by(Choice::order, {})) << "of another device";
  Checkpoint broken;
  broken.metadata["implementations"] = "[1]";
  EXPECT_THAT(error_of([&] { recorded_choices(broken); }), HasSubstr("an object of ops"));
}

// The teacher of a distilled model has the values of the checkpoint that trained it and keeps them, also where the
// training is resumed.
TEST_F(Training, ATeacherComesFromACheckpoint) {
  const Dataset data = draw_images(16, 1);
  const auto make = [&](const std::string& words, uint64_t seed) {
    return std::make_unique<Trainer>(find_model("cifar_cnn").with_words("batch:4 " + words), cpu_,
                                     Tape::preferences_for(Device::cpu), seed);
  };
  const auto teacher = make("width:8", 7);
  teacher->epoch(data);
  const Checkpoint given = teacher->checkpoint();
  const auto untrained = make("width:4 compress:distilled", 3), whole = make("width:4 compress:distilled", 3),
             resumed = make("width:4 compress:distilled", 3);
  whole->load_teacher(given);
  EXPECT_GT(std::abs(whole->epoch(data) - untrained->epoch(data)), 1e-3);
  resumed->restore(whole->checkpoint());
  EXPECT_EQ(whole->epoch(data), resumed->epoch(data));
  int compared = 0;
  for (const Trainer* student : {whole.get(), resumed.get()})
    for (const auto& [name, tensor] : student->checkpoint().tensors)
      if (name.starts_with(kTeacher)) {
        EXPECT_EQ(tensor.bytes, given.tensors.at(name.substr(8)).bytes) << name;
        ++compared;
      }
  EXPECT_EQ(compared, 2 * 10);

  const Checkpoint before = whole->checkpoint();
  const auto refused = [&](const std::function<void(Checkpoint&)>& change) {
    Checkpoint c = given;
    change(c);
    const std::string error = error_of([&] { whole->load_teacher(c); });
    EXPECT_EQ(whole->checkpoint().tensors.at("teacher.fc2.bias").bytes, before.tensors.at("teacher.fc2.bias").bytes);
    return error;
  };
  const auto trained = [&](const std::string& words) {
    return [&, words](Checkpoint& c) { c = make(words, 1)->checkpoint(); };
  };
  EXPECT_EQ(error_of([&] { teacher->load_teacher(given); }), "model cifar_cnn f32/batch:4/width:8 has no teacher");
  EXPECT_THAT(refused([&](Checkpoint& c) { c = trainer("lenet")->checkpoint(); }),
              HasSubstr("'lenet', not of cifar_cnn"));
  EXPECT_EQ(refused(trained("width:4")), "the checkpoint's width is 4, the teacher's 8");
  EXPECT_EQ(refused(trained("width:8 compress:pruned")), "the checkpoint's compress is pruned, the teacher's none");
  EXPECT_THAT(refused(trained("width:8 layout:nhwc")), HasSubstr("layout is nhwc, the model's nchw"));
  EXPECT_EQ(refused(trained("dtype:bf16 width:8 layout:nchw")), "the checkpoint's dtype is bf16, the teacher's f32");
  EXPECT_THAT(refused([](Checkpoint& c) { c.tensors.erase("fc1.bias"); }), HasSubstr("no tensor fc1.bias"));
  EXPECT_THAT(refused([](Checkpoint& c) {
                c.tensors.at("fc2.weight").shape = {16, 10};
              }),
              HasSubstr("fc2.weight is f32 [16, 10], the model's f32 [10, 16]"));
}

TEST_F(Training, BinaryDecisionsHavePrecisionAndRecall) {
  const auto toy = trainer("toy");
  toy->learning_rate(0.01);
  const Dataset training = draw_points(3200, 1), test = draw_points(500, 2);
  toy->epoch(training);
  const Metrics m = toy->evaluate(test);
  ASSERT_TRUE(m.precision && m.recall && m.f1);
  EXPECT_NEAR(*m.f1, 2 * *m.precision * *m.recall / (*m.precision + *m.recall), 1e-12);
  Dataset all_one = test;
  for (int32_t& label : all_one.label) label = 1;
  EXPECT_EQ(toy->evaluate(all_one).precision, 1) << "whatever is claimed is right";
  EXPECT_EQ(toy->evaluate(all_one).recall, toy->evaluate(all_one).accuracy);
  EXPECT_FALSE(m.perplexity);
}

// The best epoch is the one with the smallest error of ratings, the smallest loss of sequences, else the best accuracy.
TEST(TrainingMetrics, AScoreGoesByWhatIsTheCustom) {
  Metrics better, worse;
  better.accuracy = 0.9;
  better.loss = 2;
  worse.accuracy = 0.8;
  worse.loss = 1;
  EXPECT_GT(better.score(), worse.score());
  std::swap(better, worse);
  for (Metrics* m : {&better, &worse}) m->perplexity = std::exp(m->loss);
  EXPECT_GT(better.score(), worse.score());
  better.rmse = 3;
  worse.rmse = 4;
  EXPECT_GT(better.score(), worse.score());
}

TEST_F(Training, StopsWhereItIsToldAndGoesOnFromACheckpoint) {
  const Dataset data = draw_points(640, 1);
  const auto toy = trainer("toy"), other = trainer("toy");
  const Checkpoint before = toy->checkpoint();
  EXPECT_THAT(error_of([&] { toy->epoch(data, [](const Progress& p) { return p.batch < 3; }); }),
              HasSubstr("stopped in epoch 1 after batch 3 of 20"));
  toy->restore(before);
  EXPECT_EQ(toy->epoch(data), other->epoch(data));
}

// The changes of an image depend on seed, epoch and sample: a resumed training sees the same ones.
TEST_F(Training, AugmentedImagesContinueToo) {
  const Dataset data = draw_images(32, 1);
  const auto make = [&](bool augmented) {
    TrainingOptions options;
    if (augmented) options.augmentation = Augmentation{};
    return std::make_unique<Trainer>(find_model("lenet").with("batch", "8"), cpu_, Tape::preferences_for(Device::cpu),
                                     3, options);
  };
  const auto whole = make(true), first = make(true), second = make(true), plain = make(false);
  whole->epoch(data);
  first->epoch(data);
  second->restore(first->checkpoint());
  EXPECT_EQ(whole->epoch(data), second->epoch(data));
  EXPECT_NE(first->epoch(data), plain->epoch(data));
  EXPECT_EQ(whole->accuracy(data), second->accuracy(data)) << "an evaluation changes no image";
  EXPECT_THAT(error_of([&] {
                Trainer(find_model("toy"), cpu_, Tape::preferences_for(Device::cpu), 3,
                        {.augmentation = Augmentation{}});
              }),
              HasSubstr("model toy takes no images"));
}

TEST_F(Training, PairsAreLearnt) {
  Trainer trainer(find_model("transformer_small")
                      .with_words("batch:32 tokens:4 layers:1 width:32 heads:2 inner:32 vocabulary:8 dropout:0"),
                  cpu_, Tape::preferences_for(Device::cpu), 3);
  trainer.schedule({.kind = Schedule::Kind::inverse_sqrt, .base = 5e-3, .warm_up = 50, .updates = 0});
  EXPECT_TRUE(trainer.form().pairs);
  const Dataset training = draw_pairs(PairTask::reverse, 6400, 4, 8, 1);
  const Dataset test = draw_pairs(PairTask::reverse, 200, 4, 8, 2);
  for (int i = 0; i < 2; ++i) trainer.epoch(training);
  const Metrics m = trainer.evaluate(test);
  EXPECT_GT(m.accuracy, .6) << "1 / 7 by chance";
  EXPECT_NEAR(m.perplexity.value(), std::exp(m.loss), 1e-9);
  EXPECT_THAT(error_of([&] { trainer.epoch(draw_pairs(PairTask::reverse, 64, 5, 8, 1)); }),
              HasSubstr("5 tokens a sample, the model 4"));
  Dataset uneven = training;
  uneven.targets = 2;
  EXPECT_THAT(error_of([&] { trainer.epoch(uneven); }), HasSubstr("2 labels a sample, the model 4"));
}

TEST_F(Training, PointsAreLearnt) {
  const auto toy = trainer("toy");
  toy->learning_rate(0.01);
  const Dataset training = draw_points(6400, 1), test = draw_points(1000, 2);
  for (int i = 0; i < 4; ++i) toy->epoch(training);
  EXPECT_GT(toy->accuracy(test), 0.9);
}

TEST_F(Training, ReviewsAreLearnt) {
  Trainer trainer(find_model("bilstm").with("batch", "32").with("T", "16"), cpu_, Tape::preferences_for(Device::cpu),
                  3);
  trainer.learning_rate(0.01);
  const Dataset training = draw_reviews(3200, 16, 1), test = draw_reviews(500, 16, 2);
  for (int i = 0; i < 3; ++i) trainer.epoch(training);
  EXPECT_GT(trainer.accuracy(test), 0.8);
}

}  // namespace
}  // namespace duet
