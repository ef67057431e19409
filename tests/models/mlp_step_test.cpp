// SPDX-License-Identifier: Apache-2.0
// Compares a whole training step of the MLP with the same tape on the reference in double: loss, logits, every
// parameter, every gradient. Then plants faults, which the comparison and the replay must find.
#include <gtest/gtest.h>

#include <cmath>

#include "core/machine.h"
#include "core/cpu_context.h"
#include "core/gpu.h"
#include "models/data/digits.h"
#include "models/mlp.h"
#include "models/step.h"
#include "models/trainer.h"
#include "ops/elementwise/dropout.h"
#include "ops/elementwise/relu.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/linear.h"
#include "ops/loss/cross_entropy_fused.h"
#include "ops/optimiser/sgd.h"
#include "tests/models/tapes.h"

namespace duet {
namespace {

// The bound of a tensor after s steps: C(s) u max|want|, u that of f32.
// Why such a C exists: an element of a product is a sum of k terms, off by at most gamma_k sum|terms| (Higham 3.1). The
// worst case, for consecutive sums of 784, 128 and 32 terms, is C = 784 + 128 + 32 times the cancellation, which would
// hide faults. Roundings are of either sign, so errors grow with sqrt(k) instead, and blocked summation (vector
// lanes, register tiles) shortens the chains to a few dozen: some units in the last place of the largest remain.
// Later steps start from parameters that are off by lr times that, which changes little.
// C was therefore measured: the largest |got - want| / (u max|want|) of any tensor over batches, thread counts and CPU
// implementations is 7.2 after one step and 12.0 after three (2-core AVX-512 VM, g++ 12.2, 2026-11-21:
// DUET_PRINT_RATIOS=1 build/bin/duet_op_tests --gtest_filter='MlpStep.*'). kMargin allows for other orders of
// summation. The smallest fault planted below is 580 times the bound.
constexpr double kMargin = 4, kOneStep = 7.2 * kMargin, kThreeSteps = 12 * kMargin;

struct Compared {
  std::string name;
  double ratio;  // largest |got - want| / (u max|want|); infinite where a value is not finite
};

std::vector<std::pair<std::string, Var>> compared_tensors(const Tape& tape) {
  std::vector<std::pair<std::string, Var>> list = tape.outputs();
  for (const auto& [name, var] : tape.named_parameters()) {
    list.emplace_back(name, var);
    list.emplace_back(name + ".gradient", tape.gradient(var));
  }
  list.emplace_back("velocity", tape.find("velocity"));
  return list;
}

std::vector<Compared> compare_tapes(const Tape& got_tape, const Tape& want_tape) {
  std::vector<Compared> all;
  for (const auto& [name, var] : compared_tensors(want_tape)) {
    const std::vector<double> want = want_tape.download(var), got = got_tape.download(var);
    double scale = 0, ratio = 0;
    for (const double w : want) scale = std::max(scale, std::abs(w));
    for (size_t i = 0; i < want.size(); ++i) {
      const double r = std::abs(got[i] - want[i]) / (unit_roundoff(DType::f32) * scale);
      if (!(r <= ratio)) ratio = std::isnan(r) ? INFINITY : r;
    }
    all.push_back({name, ratio});
  }
  return all;
}
Compared worst(const std::vector<Compared>& all) {
  return *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
}

// The slope of relu jumps at 0: no hidden sum may be so near to 0 that rounding alone changes its sign. This holds for
// the inputs of this seed.
void expect_no_ties(const Tape& tape) {
  const std::vector<double> x = tape.download(tape.find("x")), w = tape.download(tape.find("fc1.weight")),
                            b = tape.download(tape.find("fc1.bias"));
  const size_t out = b.size(), in = w.size() / out;
  double closest = INFINITY;
  for (size_t n = 0; n < x.size() / in; ++n)
    for (size_t o = 0; o < out; ++o) {
      double sum = b[o];
      for (size_t i = 0; i < in; ++i) sum += x[n * in + i] * w[o * in + i];
      closest = std::min(closest, std::abs(sum));
    }
  EXPECT_GT(closest, 28 * unit_roundoff(DType::f32)) << "a tie of relu: choose another seed";
}

// DUET_PRINT_RATIOS=1 prints the ratios from which C was chosen.
void print_ratio(const std::string& what, int64_t batch, int steps, const Compared& c) {
  if (std::getenv("DUET_PRINT_RATIOS"))
    std::printf("%s, batch %d, %d step(s): %s %.2f\n", what.c_str(), static_cast<int>(batch), steps, c.name.c_str(),
                c.ratio);
}

struct Pair {
  CpuContext reference_cpu{1};  // outlives its tape
  Tape got, want;
  Pair(Context& context, const Tape::Preferences& preferences, int64_t batch)
      : got(context, preferences, kSeed), want(reference_cpu, {"reference"}, kSeed) {
    for (Tape* tape : {&got, &want}) {
      Mlp{.batch = batch}.train(*tape);
      tape->plan();
      tape->fill_inputs(kSeed);
    }
  }
  void step() {
    expect_no_ties(want);
    got.context().enter([&] { got.run(); });
    reference_cpu.enter([&] { want.run(); });
  }
};

// Each CPU implementation comes first in one of the lists, so that all of them are compared within a step.
std::vector<Tape::Preferences> cpu_preferences() {
  std::vector<Tape::Preferences> all{Tape::preferences_for(Device::cpu)};
  for (const char* op : {"linear", "sgd"})
    for (const Implementation* i : implementations(op))
      if (i->device == Device::cpu && i->name != all[0][0]) {
        all.push_back(all[0]);
        all.back().insert(all.back().begin(), i->name);
      }
  return all;
}

void check_steps(Context& context, const Tape::Preferences& preferences) {
  for (const int64_t batch : {7, 32}) {
    Pair pair(context, preferences, batch);
    for (int step = 1; step <= 3; ++step) {
      pair.step();
      if (step == 2) continue;
      for (const Compared& c : compare_tapes(pair.got, pair.want))
        EXPECT_LE(c.ratio, step == 1 ? kOneStep : kThreeSteps)
            << c.name << " after " << step << " steps, batch " << batch << ", " << preferences[0] << " first, "
            << context.describe();
      print_ratio(preferences[0] + " first", batch, step, worst(compare_tapes(pair.got, pair.want)));
    }
    EXPECT_TRUE(pair.got.guards_intact());
  }
}

TEST(MlpStep, EqualsTheReferenceTapeOnTheCpu) {
  for (const int threads : {1, std::min(2, usable_threads())}) {
    CpuContext cpu(threads);
    for (const Tape::Preferences& preferences : cpu_preferences()) check_steps(cpu, preferences);
  }
}

TEST(MlpStep, EqualsTheReferenceTapeOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  check_steps(*gpu, Tape::preferences_for(gpu->device()));
  check_steps(*gpu, {"cuda.tuned", "cuda.naive"});
}

// --- planted faults: the comparison and the replay must find each of them
// ------------------------------------------------

size_t node_of(const Tape& tape, const std::string& op) {
  for (size_t i = 0; i < tape.nodes().size(); ++i)
    if (tape.nodes()[i].problem.name() == op) return i;
  throw Error("the step has no {}", op);
}

struct Fault {
  const char* what;
  const char* op;  // the fault is planted in the first node of this op
  bool instead;    // run instead of the node; otherwise after it
  std::function<void(const Tape&, const Tape::Node&)> plant;
};

float* values(const Tape& tape, const Tape::Node& node, Slot slot) {
  return static_cast<float*>(tape.tensor(node.slots[static_cast<size_t>(slot.index)]).data);
}
int64_t count(const Tape& tape, const Tape::Node& node, Slot slot) {
  return tape.bytes(node.slots[static_cast<size_t>(slot.index)]) / 4;
}

std::vector<Fault> faults() {
  return {
      {"a sign swapped in a backward pass", "cross_entropy_fused", false,
       [](const Tape& t, const Tape::Node& p) {
         float* dx = values(t, p, CrossEntropyFused::dx);
         for (int64_t i = 0; i < count(t, p, CrossEntropyFused::dx); ++i) dx[i] = -dx[i];
       }},
      {"one element of the last row with a swapped sign", "gemm", false,
       [](const Tape& t, const Tape::Node& p) {
         float* row = values(t, p, Gemm::c) + (Mlp::kHidden - 1) * Mlp::kIn;  // replay always checks the last slice
         float* largest =
             std::max_element(row, row + Mlp::kIn, [](float x, float y) { return std::abs(x) < std::abs(y); });
         *largest = -*largest;
       }},
      {"dropout's mask skipped in the backward pass", "dropout_backward", true,
       [](const Tape& t, const Tape::Node& p) {
         const float* dy = values(t, p, DropoutBackward::dy);
         float* dx = values(t, p, DropoutBackward::dx);
         for (int64_t i = 0; i < count(t, p, DropoutBackward::dx); ++i) dx[i] = dy[i] * 1.25f;
       }},
      {"dropout's scale forgotten", "dropout", false,
       [](const Tape& t, const Tape::Node& p) {
         float* y = values(t, p, Dropout::y);
         for (int64_t i = 0; i < count(t, p, Dropout::y); ++i) y[i] *= 0.8f;
       }},
      {"relu's slope forgotten", "relu_backward", true,
       [](const Tape& t, const Tape::Node& p) {
         std::copy_n(values(t, p, ReluBackward::dy), count(t, p, ReluBackward::dx), values(t, p, ReluBackward::dx));
       }},
      {"a bias gradient left out", "sum", true, [](const Tape&, const Tape::Node&) {}},
      {"a thousandth too much of one gradient", "linear_backward", false,
       [](const Tape& t, const Tape::Node& p) {
         float* dw = values(t, p, LinearBackward::dw);
         for (int64_t i = 0; i < count(t, p, LinearBackward::dw); ++i) dw[i] *= 1.001f;
       }},
      {"the last parameter not updated", "sgd", false,
       [](const Tape& t, const Tape::Node& p) {
         const int64_t last = count(t, p, Sgd::p) - 1;
         values(t, p, Sgd::p)[last] += static_cast<float>(Mlp::kLearningRate) * values(t, p, Sgd::v)[last];
       }},
      {"the first step's momentum applied twice", "sgd", false,
       [](const Tape& t, const Tape::Node& p) {
         for (int64_t i = 0; i < count(t, p, Sgd::v); ++i) values(t, p, Sgd::v)[i] *= 1.9f;
       }},
      {"a NaN at the end", "linear", false,
       [](const Tape& t, const Tape::Node& p) { values(t, p, Linear::y)[count(t, p, Linear::y) - 1] = NAN; }},
  };
}

void run_with(const Fault& fault, Tape& tape, size_t node) {
  const bool here = node == node_of(tape, fault.op);
  if (!here || !fault.instead) tape.run_node(node);
  if (here) fault.plant(tape, tape.nodes()[node]);
}

TEST(MlpStep, PlantedFaultsAreFound) {
  CpuContext cpu(1);
  for (const Fault& fault : faults()) {
    Pair pair(cpu, Tape::preferences_for(Device::cpu), 32);
    cpu.enter([&] {
      pair.got.begin_step();
      for (size_t i = 0; i < pair.got.nodes().size(); ++i) run_with(fault, pair.got, i);
      pair.want.run();
    });
    const Compared c = worst(compare_tapes(pair.got, pair.want));
    EXPECT_GT(c.ratio, kOneStep) << fault.what << " was not found";
    print_ratio(fault.what, 32, 1, c);
  }
}

TEST(MlpStep, ReplayFindsPlantedFaultsAndNamesTheOp) {
  CpuContext cpu(1);
  Step step(Model::of(Mlp{.batch = 32}), cpu, Tape::preferences_for(Device::cpu), kSeed);
  ASSERT_TRUE(step.supported()) << step.reason();
  for (const Fault& fault : faults()) {
    step.tape().reset();
    const Check check = replay(step.tape(), kSeed, 0, [&](size_t node) { run_with(fault, step.tape(), node); });
    EXPECT_FALSE(check.passed()) << fault.what;
    EXPECT_EQ(check.failure.rfind(std::string(fault.op) + "/", 0), 0u) << fault.what << ": " << check.failure;
  }
  // An op that writes into another tensor: the op that reads this tensor is named.
  step.tape().reset();
  const size_t writer = node_of(step.tape(), "cross_entropy_fused"), reader = node_of(step.tape(), "dropout_backward");
  const Tape::Node& victim = step.tape().nodes()[reader];
  const Check check = replay(step.tape(), kSeed, 0, [&](size_t node) {
    step.run_node(node);
    const Tensor mask = step.tape().tensor(victim.slots[1]);
    if (node == writer) static_cast<uint8_t*>(mask.data)[5] ^= 1;
  });
  EXPECT_NE(check.failure.find("mask is no longer what was written"), std::string::npos) << check.failure;
}

// One element in the middle of an output of each op: sampled slices need not hold it.
TEST(MlpStep, ReplayOfEveryElementFindsSingleErrors) {
  CpuContext cpu(std::min(2, usable_threads()));
  Step step(Model::of(Mlp{.batch = 512}), cpu, Tape::preferences_for(Device::cpu), kSeed);
  ASSERT_TRUE(step.supported()) << step.reason();
  const auto found = [&](double elements_s, size_t faulty, size_t slot) {
    step.tape().reset();
    const Check check = replay(step.tape(), kSeed, elements_s, [&](size_t node) {
      step.run_node(node);
      if (node != faulty) return;
      const Var var = step.tape().nodes()[node].slots[slot];
      const auto n = static_cast<size_t>(step.tape().bytes(var) / 4);
      auto* const data = static_cast<float*>(step.tape().tensor(var).data);
      double squares = 0;
      for (size_t i = 0; i < n; ++i) squares += data[i] * data[i];
      data[n / 3] += static_cast<float>(0.1 * std::sqrt(squares / static_cast<double>(n)));
    });
    EXPECT_EQ(check.coverage, check.passed() && elements_s > 0 ? "op by op" : "sampled");
    return !check.passed();
  };
  int planted = 0;
  bool beside_slices = false;  // an error that the slices do not hold
  for (size_t node = 0; node < step.tape().nodes().size(); ++node) {
    const Problem& problem = step.tape().nodes()[node].problem;
    const std::vector<TensorSpec> specs = problem.tensors();
    for (size_t slot = specs.size(); slot-- > 0;) {
      if (specs[slot].role == Role::in || specs[slot].dtype != DType::f32) continue;
      ++planted;
      EXPECT_TRUE(found(60, node, slot)) << problem.name() << " " << specs[slot].name;
      if (!beside_slices) beside_slices = !found(0, node, slot);
      break;
    }
  }
  EXPECT_EQ(planted, 10);
  EXPECT_TRUE(beside_slices);
}

// The first op spends the time, so that of the others sampled slices alone are compared.
TEST(MlpStep, ReplayOfEveryElementEndsWhenItsTimeIsSpent) {
  CpuContext cpu(std::min(2, usable_threads()));
  Step step(Model::of(Mlp{.batch = 512}), cpu, Tape::preferences_for(Device::cpu), kSeed);
  ASSERT_TRUE(step.supported()) << step.reason();
  step.run();
  const Check check = step.replay(kSeed, 1e-9);
  EXPECT_TRUE(check.passed()) << check.failure;
  EXPECT_EQ(check.coverage, "sampled");
  EXPECT_NE(check.sampled_reason.find("s are spent on the ops before"), std::string::npos) << check.sampled_reason;
}

// --- the step as it is timed -----------------------------------------------------------------------------------------

TEST(MlpStep, IsVerifiedInItsOwnBuffers) {
  CpuContext cpu(std::min(2, usable_threads()));
  for (const ModelCase& c : model_cases(Scale::standard)) {
    if (c.model.name() != "mlp") continue;
    Step step(c.model, cpu, Tape::preferences_for(Device::cpu));
    ASSERT_TRUE(step.supported()) << step.reason();
    run_in_every_way(step, cpu);
    const Check check = step.replay();
    EXPECT_TRUE(check.passed()) << c.model.label() << ": " << check.failure;
    EXPECT_GT(check.elements, 0);
    EXPECT_GT(step.flops(), 0);
    EXPECT_GT(step.bytes(), 0);
    EXPECT_GT(step.memory_bytes(), 3 * 4 * 101770);
    for (const Step::Node& p : step.nodes())
      EXPECT_EQ(p.job.substr(p.job.find('/') + 1, p.implementation.size()), p.implementation);
    const std::string label = c.model.label();
    size_t ops = 9;                               // linear occurs twice
    if (label.starts_with("f16")) ops += 2;       // unscale, scale_update
    if (label.ends_with("dropout:0")) ops -= 2;   // dropout and its backward pass; with parts others take their place
    if (label.ends_with("replicas:4")) ops += 1;  // all_reduce
    EXPECT_EQ(step.implementations().size(), ops) << label;
  }
}

TEST(MlpTraining, ReachesTheDocumentedAccuracy) {
  CpuContext cpu(std::min(2, usable_threads()));
  Trainer trainer(find_model("mlp"), cpu, Tape::preferences_for(Device::cpu), kSeed);
  const Dataset training = draw_digits(8000, 2 * kSeed), test = draw_digits(2000, 2 * kSeed + 1);
  EXPECT_NEAR(trainer.accuracy(test), 0.1, 0.1) << "an untrained model guesses";
  double last = INFINITY;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const double loss = trainer.epoch(training);
    EXPECT_LT(loss, last);
    last = loss;
  }
  EXPECT_GT(trainer.accuracy(test), 0.95);
}

TEST(MlpTraining, StopsWhereTheLossIsNotFinite) {
  CpuContext cpu(1);
  Trainer trainer(find_model("mlp"), cpu, Tape::preferences_for(Device::cpu), kSeed);
  trainer.learning_rate(1e30);
  try {
    trainer.epoch(draw_digits(320, 1));
    ADD_FAILURE() << "training continued";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("step 2"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace duet
