// SPDX-License-Identifier: Apache-2.0
// Parallel training on one device. In double it learns what the undivided step learns, but for the roundings of sums
// that are formed in another order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "core/cpu_context.h"
#include "core/gpu.h"
#include "models/mlp.h"
#include "models/step.h"
#include "models/tape.h"
#include "models/trainer.h"
#include "tests/models/verified.h"
#include "ops/optimiser/sgd.h"
#include "ops/reduction/all_reduce.h"
#include "ops/reduction/sum.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 3;
constexpr int kSteps = 5;
constexpr double kBound = 1e-12;  // of a tensor's largest element

// The largest error of an element, in kBound of the largest element.
double error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return INFINITY;
  double scale = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    scale = std::max(scale, std::abs(want[i]));
    const double difference = std::abs(got[i] - want[i]);
    if (!std::isfinite(difference)) return INFINITY;
    largest = std::max(largest, difference);
  }
  return largest == 0 ? 0 : largest / (kBound * scale);
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// Values that were drawn: the dtype holds them exactly.
void upload(Tape& tape, Var var, const std::vector<double>& values) {
  const DType dtype = tape.dtype(var);
  std::vector<char> bytes(values.size() * static_cast<size_t>(size_of(dtype)));
  for (size_t i = 0; i < values.size(); ++i) store_double(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
  tape.upload(var, bytes.data(), dtype, static_cast<int64_t>(values.size()));
}

// --- model parallel ------------------------------------------------------------------------------------------------

// Of a parameter (outer, units, inner) of the whole network, what a part of several holds.
std::vector<double> share_of(const std::vector<double>& whole, int64_t outer, int64_t inner, int64_t part,
                             int64_t parts) {
  const auto length = static_cast<int64_t>(whole.size()) / (outer * parts);  // consecutive elements
  std::vector<double> share;
  for (int64_t o = 0; o < outer; ++o) {
    const auto first = whole.begin() + (o * parts + part) * length;
    share.insert(share.end(), first, first + length);
  }
  EXPECT_EQ(length % inner, 0);
  return share;
}

// A parameter of the whole network as each part holds it.
struct Split {
  const char* name;
  int64_t outer, inner;
  bool copied;  // every part has it whole
};
constexpr Split kSplit[] = {{"fc1.weight", 1, Mlp::kIn, false},
                            {"fc1.bias", 1, 1, false},
                            {"fc2.weight", Mlp::kOut, 1, false},
                            {"fc2.bias", 1, 1, true}};

TEST(ModelParallel, LearnsWhatTheWholeNetworkLearns) {
  CpuContext cpu(1);
  for (const OptimiserKind optimiser : {OptimiserKind::sgd, OptimiserKind::adam})
    for (const int64_t parts : {2, 4, 8}) {
      SCOPED_TRACE(testing::Message() << parts << " parts, " << names_of(optimiser)[static_cast<size_t>(optimiser)]);
      const Mlp model{.batch = 8, .optimiser = optimiser, .dropout = 0};
      Mlp split = model;
      split.parts = parts;
      Tape want(cpu, {"reference"}, kSeed), got(cpu, {"reference"}, kSeed);
      model.train(want);
      split.train(got);
      for (Tape* tape : {&want, &got}) {
        tape->plan();
        tape->fill_inputs(kSeed);
      }
      for (const char* input : {"x", "label"})
        ASSERT_EQ(got.download(got.find(input)), want.download(want.find(input)));

      const auto for_each_share = [&](const auto& visit) {
        for (int64_t part = 0; part < parts; ++part)
          for (const Split& s : kSplit) {
            const std::string name = "part" + std::to_string(part) + "." + s.name;
            const std::vector<double> whole = want.download(want.find(s.name));
            visit(name, s.copied ? whole : share_of(whole, s.outer, s.inner, part, parts));
          }
      };
      for_each_share([&](const std::string& name, const auto& share) { upload(got, got.find(name), share); });
      double first = 0;
      for (int step = 0; step < kSteps; ++step) {
        for (Tape* tape : {&want, &got}) cpu.enter([&] { tape->run(); });
        const std::vector<double> loss = want.download(want.find("loss"));
        if (step == 0) first = loss[0];
        EXPECT_LE(error(got.download(got.find("loss")), loss), 1);
        EXPECT_LE(error(got.download(got.find("logits")), want.download(want.find("logits"))), 1);
      }
      EXPECT_LT(want.download(want.find("loss"))[0], first);
      for_each_share([&](const std::string& name, const auto& share) {
        EXPECT_LE(error(got.download(got.find(name)), share), 1) << name;
      });
    }
}

// Each part has the bias of the head. Were they drawn apart, parts would train for other logits than the ones reported.
TEST(ModelParallel, CopiesOfTheHeadsBiasStayEqual) {
  CpuContext cpu(1);
  Tape tape(cpu, {"reference"}, kSeed);
  Mlp{.batch = 8, .dropout = 0, .parts = 4}.train(tape);
  tape.plan();
  tape.fill_inputs(kSeed);
  for (int step = 0; step <= kSteps; ++step) {
    const std::vector<double> first = tape.download(tape.find("part0.fc2.bias"));
    for (int part = 1; part < 4; ++part)
      EXPECT_EQ(tape.download(tape.find("part" + std::to_string(part) + ".fc2.bias")), first) << "after step " << step;
    cpu.enter([&] { tape.run(); });
  }
}

TEST(ModelParallel, RefusesWhatItWouldNotLearnTheSameWith) {
  const auto refused = [](const std::string& words, const std::string& why) {
    EXPECT_THAT(error_of([&] { find_model("mlp").with_words(words); }), testing::HasSubstr(why)) << words;
  };
  refused("batch:8 dropout:0 parts:3", "parts 3: 1, 2, 4 or 8 is allowed");
  refused("batch:8 dropout:0 parts:0", "parts 0: 1, 2, 4 or 8 is allowed");
  refused("batch:8 dropout:0 parts:16", "parts 16: 1, 2, 4 or 8 is allowed");
  refused("batch:8 parts:4", "parts 4: dropout above 0 allows parts 1 only");
  refused("batch:7 dropout:0 parts:4", "parts 4: the batch has to be a multiple of 4");
  refused("bf16 batch:8 dropout:0 mixed:1 parts:4", "parts 4: int8 and mixed precision allow parts 1 only");
  refused("batch:8 dropout:0 int8:1 parts:4", "parts 4: int8 and mixed precision allow parts 1 only");
}

// --- data parallel -------------------------------------------------------------------------------------------------

std::string name_in(int64_t replica, const std::string& name) {
  return replica == 0 ? name : "replica" + std::to_string(replica) + "." + name;
}

// A step of `replicas` times a model's batch, and the same of as many replicas with the same samples and parameters.
class Replicated {
 public:
  Replicated(const std::string& model, const std::string& words, int64_t batch, int64_t replicas, int64_t bucket_bytes)
      : replicas_(replicas), want(cpu_, {"reference"}, kSeed), got(cpu_, {"reference"}, kSeed) {
    const Model whole = find_model(model).with_words(words);
    whole.with("batch", std::to_string(batch * replicas)).train(want);
    whole.with("batch", std::to_string(batch)).train(got);
    got.replicate(replicas, bucket_bytes);
    for (Tape* tape : {&want, &got}) tape->plan();
    want.fill_inputs(kSeed);
    for (const auto& [name, var] : want.inputs()) {
      const std::vector<double> values = want.download(var);
      const auto share = static_cast<std::ptrdiff_t>(values.size()) / replicas;
      for (int64_t r = 0; r < replicas; ++r) {
        const auto first = values.begin() + r * share;
        upload(got, got.find(name_in(r, name)), {first, first + share});
      }
    }
  }

  // The largest error of any loss and parameter, in kBound of the tensor's largest element.
  double error_after(int steps) {
    double worst = 0;
    for (int step = 0; step < steps; ++step) {
      for (Tape* tape : {&want, &got}) cpu_.enter([&] { tape->run(); });
      double loss = 0;
      for (int64_t r = 0; r < replicas_; ++r)
        loss += got.download(got.find(name_in(r, "loss")))[0] / static_cast<double>(replicas_);
      worst = std::max(worst, error({loss}, want.download(want.find("loss"))));
    }
    for (const auto& [name, var] : want.named_parameters())
      for (int64_t r = 0; r < replicas_; ++r) {
        const std::vector<double> parameter = got.download(got.find(name_in(r, name)));
        worst = std::max(worst, error(parameter, want.download(var)));
        EXPECT_EQ(parameter, got.download(got.find(name))) << name << " of replica " << r;
      }
    return worst;
  }

  // Runs one step, with `run` instead of each all_reduce.
  double error_with(const std::function<void(size_t node)>& run) {
    cpu_.enter([&] {
      got.begin_step();
      for (size_t i = 0; i < got.nodes().size(); ++i)
        got.nodes()[i].problem.name() == AllReduce::name ? run(i) : got.run_node(i);
      want.run();
    });
    double worst = 0;
    for (const auto& [name, var] : want.named_parameters())
      for (int64_t r = 0; r < replicas_; ++r)
        worst = std::max(worst, error(got.download(got.find(name_in(r, name))), want.download(var)));
    return worst;
  }

 private:
  CpuContext cpu_{1};
  int64_t replicas_;

 public:
  Tape want, got;
};

constexpr int64_t kSmall = 4096;  // bytes of a bucket: several of each model

TEST(DataParallel, LearnsWhatALargerBatchLearns) {
  for (const auto& [model, words, batch, replicas] : {std::tuple{"toy", "", 4, 3},
                                                      {"lenet", "", 1, 2},
                                                      {"mlp", "dropout:0", 2, 4},
                                                      {"mlp", "batch:4 dropout:0 parts:2", 4, 2}})
    for (const int64_t bytes : {Tape::kBucketBytes, kSmall}) {
      SCOPED_TRACE(testing::Message() << model << " " << words << ", buckets of " << bytes << " bytes");
      EXPECT_LE(Replicated(model, words, batch, replicas, bytes).error_after(kSteps), 1);
    }
}

// A bucket that is left out, and one that lacks its first or its last element in one replica.
TEST(DataParallel, AFaultInABucketIsSeen) {
  Replicated steps("lenet", "", 1, 2, kSmall);
  const auto& nodes = steps.got.nodes();
  ASSERT_LE(steps.error_with([&](size_t i) { steps.got.run_node(i); }), 1);
  int buckets = 0;
  for (size_t faulty = 0; faulty < nodes.size(); ++faulty) {
    if (nodes[faulty].problem.name() != AllReduce::name) continue;
    ++buckets;
    const Tensor bucket = steps.got.tensor(nodes[faulty].slots[0]);
    const int64_t n = nodes[faulty].problem.as<AllReduce>().n;
    auto* second = static_cast<double*>(bucket.data) + n;  // the row of the second replica
    int64_t first = 0, last = n - 1;
    while (first < n && second[first] == 0) ++first;  // a pixel without a gradient, in both replicas
    while (last > 0 && second[last] == 0) --last;     // a gap between parameters
    ASSERT_LT(first, last);
    for (const int64_t kept : {int64_t{-1}, first, last}) {
      for (Tape* tape : {&steps.got, &steps.want}) tape->reset();
      const double error = steps.error_with([&](size_t i) {
        if (i == faulty && kept < 0) return;
        const double before = second[std::max<int64_t>(kept, 0)];
        steps.got.run_node(i);
        if (i == faulty) second[kept] = before;
      });
      EXPECT_GT(error, 1) << nodes[faulty].job() << ": " << kept;
    }
  }
  EXPECT_GE(buckets, 4);
}

TEST(DataParallel, ReducesEachBucketAsSoonAsItIsComplete) {
  constexpr int64_t kReplicas = 3;
  CpuContext cpu(1);
  Tape tape(cpu, Tape::preferences_for(Device::cpu), kSeed);
  find_model("lenet").with("batch", "2").train(tape);
  tape.replicate(kReplicas, kSmall);
  tape.plan();
  struct Bucket {
    const char* data;
    int64_t row;  // bytes
    size_t node, parameters = 0;
  };
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < tape.nodes().size(); ++i)
    if (const Tape::Node& node = tape.nodes()[i]; node.problem.name() == AllReduce::name) {
      EXPECT_EQ(tape.phases()[node.phase], "backward");
      buckets.push_back({static_cast<char*>(tape.tensor(node.slots[0]).data), node.problem.as<AllReduce>().n * 4, i});
    }
  std::set<std::pair<size_t, int64_t>> complete;  // bucket and its last node but for other buckets
  for (const auto& [name, var] : tape.named_parameters()) {
    const Var gradient = tape.gradient(var);
    const auto* data = static_cast<char*>(tape.tensor(gradient).data);
    const int64_t replica = name.starts_with("replica") ? name[7] - '0' : 0;
    size_t in = 0, last = 0;
    for (size_t b = 0; b < buckets.size(); ++b) {
      const char* row = buckets[b].data + replica * buckets[b].row;
      if (data < row || data + tape.bytes(gradient) > row + buckets[b].row) continue;
      ++in;
      ++buckets[b].parameters;
      for (size_t i = 0; i < tape.nodes().size(); ++i)
        if (tape.phases()[tape.nodes()[i].phase] != "optimiser")
          for (const Var slot : tape.nodes()[i].slots)
            if (slot.id == gradient.id) last = i;
      EXPECT_LT(last, buckets[b].node) << name << " is written after its reduction";
      complete.emplace(b, static_cast<int64_t>(last));
    }
    EXPECT_EQ(in, 1U) << name << " lies in the rows of its replica in one bucket";
  }
  ASSERT_GE(buckets.size(), 4U);
  for (size_t b = 0; b < buckets.size(); ++b) {
    EXPECT_TRUE(buckets[b].row <= kSmall || buckets[b].parameters == kReplicas) << buckets[b].row;
    int64_t last = 0;
    for (const auto& [bucket, node] : complete)
      if (bucket == b) last = std::max(last, node);
    for (auto i = static_cast<size_t>(last) + 1; i < buckets[b].node; ++i)
      EXPECT_EQ(tape.nodes()[i].problem.name(), AllReduce::name) << "bucket " << b << " waits";
  }
}

// An optimiser that takes a part of a parameter would update that of the first replica alone.
TEST(DataParallel, RefusesAnOptimiserOfSlices) {
  CpuContext cpu(1);
  Tape tape(cpu, {"reference"}, kSeed);
  const Var x = tape.input("x", DType::f32, {2, 8}, Fill::uniform(-1, 1));
  const Var w = tape.parameter("w", {8}, Fill::uniform(-1, 1), DType::f32);
  const Var v = tape.state("v", {4}, Fill::constant(0)), lr = tape.state("lr", {1}, Fill::constant(0.1));
  tape.phase("backward");
  tape.add(Sum{.rows = 2, .cols = 8, .axis = 0}, {x}, {{Sum::y, tape.gradient(w)}});
  tape.phase(kOptimiser);
  tape.add(Sgd{.n = 4}, {tape.slice(tape.gradient(w), 0, {4}), lr, tape.slice(w, 0, {4}), v});
  EXPECT_THAT(error_of([&] { tape.replicate(2); }), testing::HasSubstr("its optimiser takes w apart"));
}

// Every model that has replicas: their parameters remain equal bit for bit, and each op is right in its place.
TEST(DataParallel, IsOfferedByEveryModelThatAllowsIt) {
  const std::map<std::string, std::string> refused{
      {"gpt2", "clips gradients to a norm"}, {"llama", "clips gradients to a norm"}, {"recommender", "no optimiser"}};
  CpuContext cpu(1);
  std::string last;
  for (const ModelCase& c : model_cases(Scale::test)) {
    if (std::exchange(last, c.model.name()) == c.model.name()) continue;
    SCOPED_TRACE(c.model.name());
    const Model model = c.model.with("replicas", "2");
    if (const auto reason = refused.find(c.model.name()); reason != refused.end()) {
      EXPECT_THAT(
          error_of([&] { model.require_trained(); }),
          testing::AllOf(testing::HasSubstr(c.model.name() + ": replicas 2: "), testing::HasSubstr(reason->second)));
      continue;
    }
    Step step(model, cpu, Tape::preferences_for(Device::cpu), kSeed);
    expect_right_op_by_op(step, cpu);
    const Tape& tape = step.tape();
    for (const auto& [name, var] : tape.named_parameters())
      if (!name.starts_with("replica")) {
        EXPECT_EQ(tape.download(var), tape.download(tape.find("replica1." + name))) << name;
      }
  }
}

TEST(DataParallel, ReplicasStartAlikeWithInputsAndMasksOfTheirOwn) {
  CpuContext cpu(1);
  for (const char* words : {"f16 batch:4 mixed:1", "batch:4"}) {
    Step step(find_model("mlp").with_words(std::string(words) + " replicas:3"), cpu,
              Tape::preferences_for(Device::cpu));
    ASSERT_TRUE(step.supported()) << step.reason();
    const Tape& tape = step.tape();
    const auto differ = [&](const std::string& name) {
      return tape.download(tape.find(name)) != tape.download(tape.find("replica2." + name));
    };
    EXPECT_FALSE(differ("fc1.weight"));
    EXPECT_TRUE(differ("x"));
    cpu.enter([&] { step.run(); });
    EXPECT_TRUE(differ("dropout.offset"));
    EXPECT_TRUE(differ("loss"));
    const Check check = step.replay();
    EXPECT_TRUE(check.passed()) << check.failure;
    EXPECT_FALSE(differ("fc1.weight"));
  }
}

TEST(DataParallel, IsRightOpByOpOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  for (const Step::Form form : {Step::Form::eager, Step::Form::graph}) {
    Step step(find_model("mlp").with_words("batch:4 replicas:2"), *gpu, Tape::preferences_for(gpu->device()), kSeed,
              form);
    expect_right_op_by_op(step, *gpu);
    for (const char* name : {"fc1.weight", "fc2.bias"})
      EXPECT_EQ(step.tape().download(step.tape().find(name)),
                step.tape().download(step.tape().find("replica1." + std::string(name))));
  }
}

TEST(DataParallel, RefusesWhatItIsNot) {
  const Model mlp = find_model("mlp");
  EXPECT_THAT(error_of([&] { mlp.with("replicas", "0"); }), testing::HasSubstr("replicas 0: 1 to 64 are allowed"));
  EXPECT_THAT(error_of([&] { mlp.with("replicas", "65"); }), testing::HasSubstr("replicas 65: 1 to 64 are allowed"));
  EXPECT_THAT(error_of([&] { mlp.with("replicas", "2").require_served(); }),
              testing::HasSubstr("replicas 2: only a training step has it"));
  CpuContext cpu(1);
  EXPECT_THAT(error_of([&] { Trainer(mlp.with("replicas", "2"), cpu, Tape::preferences_for(Device::cpu), kSeed); }),
              testing::HasSubstr("replicas 2: 1 is allowed"));
}

}  // namespace
}  // namespace duet
