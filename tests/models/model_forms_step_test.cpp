// SPDX-License-Identifier: Apache-2.0
// One step in several forms gives the same: channels last, a padded vocabulary, activations that are computed again;
// and what fine-tuning and folded batch normalisation change.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "core/cpu_context.h"
#include "core/gpu.h"
#include "core/machine.h"
#include "models/step.h"
#include "ops/loss/cross_entropy_fused.h"
#include "tests/models/tapes.h"

namespace duet {
namespace {

// The largest |got - want|, over the largest |want|; NaN where one of them is NaN.
double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double scale = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double apart = std::abs(got[i] - want[i]);
    if (std::isnan(apart)) return apart;
    scale = std::max(scale, std::abs(want[i]));
    error = std::max(error, apart);
  }
  return scale > 0 ? error / scale : error > 0 ? INFINITY : 0;
}

// A tensor (rows, c, pixels) as (rows, pixels, to), with zeros in further channels.
std::vector<float> with_channels_last(const std::vector<double>& from, int64_t rows, int64_t c, int64_t pixels,
                                      int64_t to) {
  std::vector<float> all(static_cast<size_t>(rows * pixels * to));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t q = 0; q < c; ++q)
      for (int64_t p = 0; p < pixels; ++p)
        all[static_cast<size_t>((r * pixels + p) * to + q)] =
            static_cast<float>(from[static_cast<size_t>((r * c + q) * pixels + p)]);
  return all;
}

// In double the order of the axes changes roundings only: with the same weights, channels last gives the same loss, the
// same logits and the same gradients. In 16 bits the first convolution has further channels, of zeros.
TEST(Models, ChannelsLastIsTheSameStep) {
  CpuContext cpu(1);
  for (const auto& [name, words, pixels_of_fc1] :
       {std::tuple{"lenet", "batch:2", 25}, std::tuple{"lenet", "bf16 batch:2", 25},
        std::tuple{"image_cnn", "batch:2 side:22 classes:1 width:3", 4},
        std::tuple{"resnet50", "batch:2 side:32 classes:5 width:2", 0},
        std::tuple{"resnet50", "bf16 batch:2 side:32 classes:5 width:2", 0}}) {
    SCOPED_TRACE(std::string(name) + " " + words);
    const Model model = find_model(name).with_words(std::string(words) + " layout:nchw");
    const auto first = tape_of(model, cpu, {"reference"}),
               last = tape_of(model.with("layout", "nhwc"), cpu, {"reference"});
    ASSERT_EQ(first->named_parameters().size(), last->named_parameters().size());
    // Where a tensor's channels lie: rows, channels, pixels; and how many channels it has with its padding.
    const auto shape_of = [&, pixels = pixels_of_fc1](const std::string& parameter, Var from, Var to) {
      const Shape a = first->shape(from), b = last->shape(to);
      if (a.size() == 4) return std::array<int64_t, 4>{a[0], a[1], a[2] * a[3], b[3]};
      if (parameter == "fc1.weight") return std::array<int64_t, 4>{a[0], a[1] / pixels, pixels, a[1] / pixels};
      int64_t elements = 1;
      for (const int64_t d : a) elements *= d;
      return std::array<int64_t, 4>{elements, 1, 1, 1};
    };
    for (size_t i = 0; i < first->named_parameters().size(); ++i) {
      const auto& [parameter, from] = first->named_parameters()[i];
      const Var to = last->find(parameter);
      const auto [rows, c, pixels, padded] = shape_of(parameter, from, to);
      const std::vector<float> values = with_channels_last(first->download(from), rows, c, pixels, padded);
      std::vector<char> rounded(values.size() * static_cast<size_t>(size_of(last->dtype(to))));
      for (size_t e = 0; e < values.size(); ++e)
        store_double(rounded.data(), last->dtype(to), static_cast<int64_t>(e), values[e]);
      last->upload(to, rounded.data(), last->dtype(to), static_cast<int64_t>(values.size()));
    }
    for (Tape* tape : {first.get(), last.get()}) cpu.enter([&] { tape->run(); });
    EXPECT_NEAR(first->download(first->find("loss"))[0], last->download(last->find("loss"))[0], 1e-9);
    for (const auto& [parameter, from] : first->named_parameters()) {
      const Var to = last->find(parameter);
      const auto [rows, c, pixels, padded] = shape_of(parameter, from, to);
      const std::vector<double> g = first->download(first->gradient(from)), got = last->download(last->gradient(to));
      const std::vector<float> want = with_channels_last(g, rows, c, pixels, padded);
      ASSERT_EQ(want.size(), got.size()) << parameter;
      EXPECT_LE(distance(got, {want.begin(), want.end()}), 1e-6) << parameter;  // of the values as f32
    }
  }
}

TEST(Models, SixteenBitsMeanChannelsLastWhereNoLayoutIsGiven) {
  const Model& lenet = find_model("lenet");
  EXPECT_EQ(lenet.with("batch", "2").label(), "f32/batch:2");
  EXPECT_EQ(lenet.with("dtype", "bf16").label(), "bf16/batch:4/layout:nhwc");
  EXPECT_EQ(lenet.with({{"layout", "nchw"}, {"dtype", "f16"}}).label(), "f16/batch:4/layout:nchw");
  const Model first = lenet.with_words("bf16 batch:2 layout:nchw");
  EXPECT_EQ(first.with("batch", "1").label(), "bf16/batch:1/layout:nchw") << "which stays as it was given";
  EXPECT_EQ(lenet.with_words(first.label()).label(), first.label());
  EXPECT_EQ(find_model("gpt2").with("dtype", "bf16").label(), "bf16/batch:1/tokens:256");
}

// With a padded table the loss, and the gradients of the words, are those without; the further rows have none.
TEST(Models, PaddingOfTheVocabularyChangesNothing) {
  CpuContext cpu(1);
  const Model model =
      find_model("gpt2").with_words("batch:2 tokens:8 layers:1 width:24 heads:3 vocabulary:31 context:8");
  const auto plain = tape_of(model, cpu, {"reference"}),
             padded = tape_of(model.with("padding", "8"), cpu, {"reference"});
  const auto loss = std::find_if(padded->nodes().begin(), padded->nodes().end(),
                                 [](const Tape::Node& node) { return node.problem.name() == CrossEntropyFused::name; });
  ASSERT_NE(loss, padded->nodes().end());
  EXPECT_EQ(padded->shape(loss->slots[CrossEntropyFused::x.index]), (Shape{16, 32})) << "of the logits";
  for (const auto& [name, from] : plain->named_parameters()) {
    const std::vector<double> values = plain->download(from);
    std::vector<float> given(values.begin(), values.end());
    if (name == "wte") given.resize(32 * 24, 0.25f);
    padded->upload(padded->find(name), std::span<const float>(given));
  }
  for (Tape* tape : {plain.get(), padded.get()}) cpu.enter([&] { tape->run(); });
  EXPECT_DOUBLE_EQ(plain->download(plain->find("loss"))[0], padded->download(padded->find("loss"))[0]);
  for (const auto& [name, from] : plain->named_parameters()) {
    std::vector<double> want = plain->download(plain->gradient(from));
    want.resize(padded->download(padded->find(name)).size(), 0);
    EXPECT_LE(distance(padded->download(padded->gradient(padded->find(name))), want), 1e-12) << name;
  }
}

// What a step leaves: outputs, states, parameters and gradients, by name.
std::map<std::string, std::vector<double>> left_by(const Tape& tape) {
  std::map<std::string, std::vector<double>> all;
  for (const auto* list : {&tape.outputs(), &tape.states(), &tape.named_parameters()})
    for (const auto& [name, var] : *list) all[name] = tape.download(var);
  for (const auto& [name, var] : tape.named_parameters())
    all["gradient of " + name] = tape.download(tape.gradient(var));
  return all;
}

// Two steps whose blocks are computed again leave the same bits as two whose activations are kept: dropout drops the
// same elements, and running statistics see each batch once. Less memory lies between the ops.
void check_recomputed(Context& context, const Tape::Preferences& preferences) {
  for (const auto& [name, words] : {
           std::pair{"gpt2", "batch:2 tokens:8 layers:3 width:24 heads:3 vocabulary:31 context:8"},
           {"llama", "batch:2 tokens:8 layers:3 width:24 heads:6 kv_heads:2 inner:36 vocabulary:31"},
           {"transformer", "batch:2 tokens:8 layers:2 width:24 heads:3 inner:40 vocabulary:31"},
           {"transformer_small", "bf16 batch:2 tokens:8 layers:2 width:24 heads:3 inner:40 vocabulary:31 mixed:1"},
           {"resnet50", "batch:2 side:32 classes:5 width:2"},
       }) {
    SCOPED_TRACE(std::string(name) + " " + words);
    const Model kept_model = find_model(name).with_words(words);
    const auto kept = tape_of(kept_model, context, preferences),
               again = tape_of(kept_model.with("recompute", "1"), context, preferences);
    for (Tape* tape : {kept.get(), again.get()})
      for (int step = 0; step < 2; ++step) context.enter([&] { tape->run(); });
    const auto want = left_by(*kept), got = left_by(*again);
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [tensor, values] : want) EXPECT_TRUE(got.at(tensor) == values) << tensor;
    EXPECT_LT(again->memory_bytes(), kept->memory_bytes());
    EXPECT_GT(again->nodes().size(), kept->nodes().size());
  }
}

TEST(Models, RecomputedActivationsGiveTheSameBits) {
  CpuContext cpu(std::min(2, usable_threads()));
  check_recomputed(cpu, Tape::preferences_for(Device::cpu));
  check_recomputed(cpu, {"reference"});
}

TEST(Models, RecomputedActivationsGiveTheSameBitsOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  check_recomputed(*gpu, {"cuda.tuned", "cuda.naive"});
  for (const auto& [name, words] :
       {std::pair{"gpt2", "batch:2 tokens:8 layers:2 width:24 heads:3 vocabulary:31 context:8 recompute:1"},
        {"transformer", "batch:2 tokens:8 layers:1 width:24 heads:3 inner:40 vocabulary:31 recompute:1"}}) {
    Step step(find_model(name).with_words(words), *gpu, Tape::preferences_for(gpu->device()), kSeed, Step::Form::graph);
    ASSERT_TRUE(step.supported()) << step.reason();
    for (int i = 0; i < 2; ++i) gpu->enter([&] { step.run(); });
    const Check check = step.replay();
    EXPECT_TRUE(check.passed()) << name << ": " << check.failure;
  }
}

// Of what is computed again, ops whose results no op reads are left out: of a block of GPT-2 its last product. Its
// first norm reads the sum of the step's first one, which is kept.
TEST(Models, RecomputeOnlyWhatIsRead) {
  CpuContext cpu(1);
  const Model model = find_model("gpt2").with_words("batch:2 tokens:8 layers:1 width:24 heads:3 vocabulary:31");
  const auto count = [&](const char* recompute, std::string_view op) {
    const auto tape = tape_of(model.with("recompute", recompute), cpu, Tape::preferences_for(Device::cpu));
    return std::count_if(tape->nodes().begin(), tape->nodes().end(),
                         [&](const Tape::Node& node) { return node.problem.name() == op; });
  };
  EXPECT_EQ(count("1", "linear"), count("0", "linear") + 3);  // of qkv, out, fc1, fc2
  EXPECT_EQ(count("1", "add_layernorm"), count("0", "add_layernorm") + 1);
  EXPECT_EQ(count("1", "layernorm"), count("0", "layernorm") + 1);
  EXPECT_EQ(count("1", "gelu"), count("0", "gelu") + 1);
}

TEST(Models, FineTuningMovesTheHeadAlone) {
  CpuContext cpu(1);
  const auto tape = tape_of(find_model("resnet50").with_words("batch:4 side:32 classes:5 width:2 head_only:1"), cpu,
                            Tape::preferences_for(Device::cpu));
  ASSERT_EQ(tape->named_parameters().size(), 2u);
  std::map<std::string, std::vector<double>> before;
  for (const auto& [name, var] : tape->states()) before[name] = tape->download(var);
  for (const auto& [name, var] : tape->named_parameters()) before[name] = tape->download(var);
  cpu.enter([&] { tape->run(); });
  const double loss = tape->download(tape->find("loss"))[0];
  cpu.enter([&] { tape->run(); });
  EXPECT_LT(tape->download(tape->find("loss"))[0], loss);
  for (const auto& [name, values] : before) {
    const bool moves = name.starts_with("fc.") || name == "velocity";
    EXPECT_EQ(tape->download(tape->find(name)) != values, moves) << name;
  }
}

// An inference with its batch normalisation folded, as bench_all times it: every op is compared with its reference, and
// no batch normalisation is left.
void verify_folded(Context& context) {
  for (const char* form : {"", " layout:nhwc", " dtype:bf16 layout:nhwc"}) {
    const Model model =
        find_model("resnet50").with_words(std::string("batch:4 side:32 classes:10 width:4 folded:1") + form);
    Step step(model, context, Tape::preferences_for(context.device()), kSeed, Step::Form::eager, Pass::inference);
    ASSERT_TRUE(step.supported()) << step.reason();
    step.draw_inputs(kSeed);
    step.keep_state();
    context.enter([&] { step.run(); });
    const Check check = step.replay_kept(1);
    EXPECT_TRUE(check.passed()) << model.label() << ": " << check.failure;
    for (const Step::Node& node : step.nodes()) EXPECT_FALSE(node.job.starts_with("batchnorm")) << node.job;
  }
}

TEST(Models, FoldedInferencesAreVerifiedAsTheyAreTimed) {
  CpuContext cpu(1);
  verify_folded(cpu);
}

TEST(Models, FoldedInferencesAreVerifiedAsTheyAreTimedOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  verify_folded(*gpu);
}

}  // namespace
}  // namespace duet
