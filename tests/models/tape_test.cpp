// SPDX-License-Identifier: Apache-2.0
// What the tape itself guarantees, mostly tested with the reference: declaring, packing, counters, phases, errors.
#include "models/tape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/cpu_context.h"
#include "core/philox.h"
#include "models/arena.h"
#include "models/mlp.h"
#include "models/step.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/linear.h"
#include "ops/optimiser/sgd.h"

namespace duet {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

const Tape::Preferences kReference{"reference"};

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

TEST(Arena, LiveTensorsDoNotOverlap) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<Lifetime> lives;
    for (uint64_t i = 0; i < 3 + seed % 40; ++i) {
      const auto first = static_cast<int>(philox_bits(3 * i, seed) % 30);
      lives.push_back({static_cast<int64_t>(philox_bits(3 * i + 1, seed) % 50000), first,
                       first + static_cast<int>(philox_bits(3 * i + 2, seed) % 10)});
    }
    const int64_t total = pack(lives);
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_GE(lives[i].offset, 0);
      EXPECT_EQ(lives[i].offset % 128, 0);
      EXPECT_LE(lives[i].offset + lives[i].bytes, total);
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(lives[i], lives[j])) << seed << ": " << i << ", " << j;
    }
  }
}

TEST(Arena, ReusesMemory) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({1 << 20, i, i + 1});
  EXPECT_LE(pack(chain), 2 * ((1 << 20) + 4096));
}

TEST(Tape, ParametersShareOneArena) {
  CpuContext cpu(1);
  Tape tape(cpu, kReference);
  Mlp{.batch = 3}.train(tape);
  tape.plan();
  EXPECT_EQ(tape.parameter_count(), 101770);
  const auto at = [&](Var v) { return static_cast<char*>(tape.tensor(v).data); };
  const Var w1 = tape.find("fc1.weight"), b2 = tape.find("fc2.bias");
  const int64_t apart = at(b2) - at(w1);
  EXPECT_EQ(apart % 256, 0);
  EXPECT_EQ(apart, at(tape.gradient(b2)) - at(tape.gradient(w1)));
  EXPECT_THAT(tape.shape(tape.gradient(w1)), ElementsAre(128, 784));
  const std::vector<double> w = tape.download(w1);
  EXPECT_LE(*std::max_element(w.begin(), w.end()), 1 / 28.);
  EXPECT_GE(*std::max_element(w.begin(), w.end()), 0.99 / 28);
  EXPECT_LE(*std::min_element(w.begin(), w.end()), -0.99 / 28);
  EXPECT_NE(w[0], tape.download(tape.find("fc2.weight"))[0]);
}

TEST(Tape, GapsOfTheArenaStayZero) {
  CpuContext cpu(1);
  Tape tape(cpu, kReference);
  const Var a = tape.parameter("a", {3}, Fill::constant(2)), b = tape.parameter("b", {2}, Fill::constant(3));
  const Var x = tape.input("x", DType::f32, {3});
  tape.add(Relu{3}, {x}, {{Relu::y, tape.gradient(a)}});
  tape.add(Relu{2}, {b}, {{Relu::y, tape.gradient(b)}});
  const Var v = tape.state("v", {tape.parameter_count()}, 0), lr = tape.state("lr", {1}, 0.5), p = tape.parameters();
  tape.add(Sgd{.n = tape.parameter_count()}, {tape.gradients(), lr, p, v});
  tape.plan();
  tape.upload(x, std::span<const float>(std::vector<float>{1, 2, -4}));
  cpu.enter([&] { tape.run(); });
  const std::vector<double> all = tape.download(p);
  ASSERT_EQ(all.size(), 66u);
  EXPECT_EQ(std::vector<double>(all.begin(), all.begin() + 3), (std::vector<double>{1.5, 1, 2}));
  for (size_t i = 3; i < 64; ++i) EXPECT_EQ(all[i], 0);
  EXPECT_EQ(all[64], 1.5);
  EXPECT_TRUE(tape.guards_intact());
  tape.reset();
  EXPECT_EQ(tape.download(p)[0], 2);
  EXPECT_TRUE(std::isnan(tape.download(tape.gradient(a))[0])) << "a gradient that was never written must not pass";
}

TEST(Tape, CountersAdvanceWithEachStep) {
  CpuContext cpu(1);
  Tape tape(cpu, kReference, 5), other(cpu, kReference, 6);
  const Var c = tape.counter("c", (int64_t{1} << 30) + 4), d = other.counter("c", 4);
  tape.plan();
  other.plan();
  std::vector<double> seen;
  for (int i = 0; i < 4; ++i) {
    cpu.enter([&] { tape.run(); });
    seen.push_back(tape.download(c)[0]);
  }
  cpu.enter([&] { other.run(); });
  EXPECT_NE(other.download(d)[0], seen[0]) << "another seed, another start";
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GE(seen[i], 0);
    EXPECT_EQ(static_cast<int64_t>(seen[i]) % 4, 0);
    const auto before = static_cast<int64_t>(seen[i ? i - 1 : 0]);
    if (i) {
      EXPECT_EQ(static_cast<int64_t>(seen[i]), (before + (int64_t{1} << 30) + 4) & 0x7fffffff);
    }
  }
  tape.reset();
  cpu.enter([&] { tape.run(); });
  EXPECT_EQ(tape.download(c)[0], seen[0]);
}

TEST(Tape, AllPhasesInOrderAreAStep) {
  CpuContext cpu(1);
  Tape whole(cpu, kReference), phased(cpu, kReference);
  for (Tape* t : {&whole, &phased}) {
    Mlp{.batch = 2}.train(*t);
    t->plan();
    t->fill_inputs(1);
  }
  EXPECT_THAT(whole.phases(), ElementsAre("forward", "loss", "backward", "optimiser"));
  cpu.enter([&] {
    whole.run();
    phased.begin_step();
    for (size_t p = 0; p < phased.phases().size(); ++p) phased.run_phase(p);
  });
  for (const char* name : {"loss", "logits", "fc1.weight", "velocity"})
    EXPECT_EQ(whole.download(whole.find(name)), phased.download(phased.find(name))) << name;
}

TEST(Tape, AnEvaluationTapeCopiesParameters) {
  CpuContext cpu(1);
  Tape train(cpu, kReference, 1), evaluate(cpu, kReference, 2);
  Mlp{.batch = 2}.train(train);
  Mlp{.batch = 2}.evaluate(evaluate);
  train.plan();
  evaluate.plan();
  EXPECT_NE(train.download(train.find("fc2.bias")), evaluate.download(evaluate.find("fc2.bias")));
  evaluate.copy_state_from(train);
  EXPECT_EQ(train.download(train.find("fc2.bias")), evaluate.download(evaluate.find("fc2.bias")));
}

TEST(Tape, EqualProblemsShareAPlan) {
  CpuContext cpu(1);
  for (const Tape::Preferences& preferences : {kReference, Tape::Preferences{"cpu.tuned"}}) {
    Tape tape(cpu, preferences);
    const Var x = tape.input("x", DType::f32, {4, 8}), w = tape.parameter("w", {8, 8}, Fill::uniform(-1, 1));
    const Var b = tape.parameter("b", {8}, Fill::uniform(-1, 1));
    Linear layer{.n = 4, .in = 8, .out = 8};
    const Var first = tape.add(layer, {x, w, b}), second = tape.add(layer, {first, w, b});
    layer.act = Act::relu;
    tape.output("y", tape.add(layer, {second, w, b}));
    tape.plan();
    const std::vector<Tape::Node>& nodes = tape.nodes();
    EXPECT_EQ(nodes[0].plan, nodes[1].plan);
    EXPECT_NE(nodes[1].plan, nodes[2].plan);
  }
}

TEST(Tape, RefusesWhatDoesNotFit) {
  CpuContext cpu(1);
  Tape tape(cpu, kReference);
  const Var x = tape.input("x", DType::f32, {2, 3}), half = tape.input("half", DType::bf16, {6});
  EXPECT_THAT(error_of([&] { tape.add(Relu{7}, {x}); }), HasSubstr("tensor x is f32 [7], but x is f32 [2, 3]"));
  EXPECT_THAT(error_of([&] { tape.add(Relu{6}, {half}); }), HasSubstr("bf16"));
  EXPECT_THAT(error_of([&] { tape.add(Relu{6}, {}); }), HasSubstr("x is missing"));
  EXPECT_THAT(error_of([&] { tape.add(Relu{6}, {x, x}); }), HasSubstr("2 tensors given, 1 expected"));
  EXPECT_THAT(error_of([&] { tape.add(Relu{-6}, {x}); }), HasSubstr("-6"));
  EXPECT_THAT(error_of([&] { tape.input("x", DType::f32, {1}); }), HasSubstr("two tensors named 'x'"));
  EXPECT_THAT(error_of([&] { tape.find("y"); }), HasSubstr("it has x half"));
  EXPECT_THAT(error_of([&] { tape.gradient(x); }), HasSubstr("x is not a parameter"));
  EXPECT_THAT(error_of([&] { tape.upload(x, std::span<const float>()); }), HasSubstr("after plan()"));
  EXPECT_NE(static_cast<Var>(tape.add(Relu{6}, {x})).id, -1) << "a view with as many elements fits";
  tape.parameters();
  EXPECT_THAT(error_of([&] { tape.parameter("late", {1}, Fill::constant(0)); }),
              HasSubstr("declare all parameters first"));
  tape.plan();
  EXPECT_THAT(error_of([&] { tape.add(Relu{6}, {x}); }), HasSubstr("before plan()"));
  EXPECT_THAT(error_of([&] { tape.upload(x, std::span<const float>()); }), HasSubstr("0 values of f32 were given"));
}

TEST(Tape, NamesEveryReasonWhenNothingServes) {
  CpuContext cpu(1);
  Tape tape(cpu, {"cpu.unknown", "cpu.nothing"});
  tape.add(Relu{3}, {tape.input("x", DType::f32, {3})});
  EXPECT_THAT(error_of([&] { tape.plan(); }), AllOf(HasSubstr("relu f32/n:3"), HasSubstr("cpu.unknown: not built"),
                                                    HasSubstr("cpu.nothing: not built")));
  EXPECT_THAT(error_of([&] { Tape(cpu, {"cuda.tuned"}); }), HasSubstr("'cuda.tuned'"));
  EXPECT_THAT(error_of([&] { Tape(cpu, {"cpu.tuned", "reference"}); }), HasSubstr("reference"));
  const Step step(find_model("mlp"), cpu, {"cpu.unknown"});
  EXPECT_FALSE(step.supported());
  EXPECT_THAT(step.reason(), HasSubstr("linear"));
}

TEST(Model, IsNamedAndSetLikeAProblem) {
  const Model mlp = find_model("mlp");
  EXPECT_EQ(step_job_name(mlp, "cpu"), "step/mlp/cpu/f32/batch:32");
  EXPECT_EQ(step_job_name(mlp.with("batch", "512").with("dtype", "bf16"), "gpu"), "step/mlp/gpu/bf16/batch:512");
  EXPECT_THAT(error_of([&] { mlp.with("batch", "0"); }), HasSubstr("batch 0"));
  EXPECT_THAT(error_of([&] { mlp.with("width", "3"); }), HasSubstr("known are dtype batch"));
  EXPECT_THAT(error_of([&] { find_model("resnet"); }), HasSubstr("did you mean lenet, resnet50?"));
  for (const auto& [name, model] : models())
    for (const Scale scale : {Scale::test, Scale::standard, Scale::sweep}) {
      const std::vector<ModelCase> cases = model_cases(scale);
      EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const auto& c) { return c.model.name() == name; }))
          << name;
    }
}

TEST(Model, SweepsHaveEnoughBatchesForACurve) {
  std::map<std::string, std::vector<std::string>> labels_of;
  for (const ModelCase& c : model_cases(Scale::sweep)) {
    EXPECT_THAT(c.why, ::testing::StartsWith("sweep over "));
    labels_of[c.model.name()].push_back(c.model.label() + "/");
  }
  EXPECT_EQ(labels_of.size(), models().size());
  for (const auto& [name, labels] : labels_of) {
    EXPECT_GE(labels.size(), 7U) << name;
    EXPECT_THAT(labels.front(), HasSubstr("/batch:1/"));
  }
}

}  // namespace
}  // namespace duet
