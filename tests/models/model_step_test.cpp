// SPDX-License-Identifier: Apache-2.0
// Compares a whole step of every model with the same tape on the reference in double: loss, logits, every gradient,
// every parameter and the optimiser's state. Also tests that this comparison finds a fault in any op of any model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "core/machine.h"
#include "core/cpu_context.h"
#include "core/gpu.h"
#include "models/step.h"
#include "ops/elementwise/bias.h"
#include "ops/gemm/linear.h"
#include "ops/loss/cross_entropy_fused.h"
#include "ops/optimiser/adam.h"
#include "ops/pool/max_pool2d.h"
#include "tests/models/golden.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 3;
const double kUnit = unit_roundoff(DType::f32);

// The bound of a tensor after a step: C u max|want|, as derived in mlp_step_test.cpp, with C measured: the largest of
// any tensor over thread counts and implementations (2-core AVX-512 VM, g++ 12.2, 2026-11-21: DUET_PRINT_RATIOS=1
// build/bin/duet_op_tests --gtest_filter='ModelStep.Equals*'). kMargin allows for other orders of summation. The
// worst are gradients that sum over batch and pixels, and those of deep networks.
constexpr double kMargin = 4;
const std::map<std::string, double> kMeasured{
    {"bilstm", 10.4},   {"cifar_cnn", 10.3},   {"gpt2", 11.7},       {"image_cnn", 12.8},      {"lenet", 17},
    {"llama", 7.7},     {"lstm_scorer", 22.5}, {"mlp", 8.3},         {"mnist_cnn", 10.9},      {"recommender", 1.7},
    {"resnet50", 1460}, {"toy", 1.7},          {"transformer", 9.7}, {"transformer_small", 66}};

// A teacher's divergence is a small difference of logarithms, times the square of the temperature, 16.
double bound_of(const Model& model) {
  const bool distilled = model.label().find("distilled") != std::string::npos;
  return kMargin * kMeasured.at(model.name()) * (distilled ? 4 : 1);
}

struct Compared {
  std::string name;
  // The largest |got - want| / (u max|want|), less the change that Adam makes of an allowed error of its gradient.
  // Infinite where a value is not finite.
  double ratio;
};

bool has_state(const Tape& tape, const std::string& name) {
  try {
    return tape.find(name).id >= 0;
  } catch (const Error&) {
    return false;
  }
}

// Adam's first update is lr g / (|g| + eps): where a gradient is about as large as its own error, the error of the
// update is as large as the update. The function is monotone in g, so an error e of g changes it by at most this.
double adam_reach(double g, double e, double lr) {
  const double eps = Adam{}.eps;
  const auto move = [&](double x) { return lr * x / (std::abs(x) + eps); };
  return std::max(move(g + e) - move(g), move(g) - move(g - e));
}

Compared compare(const std::string& name, const std::vector<double>& got, const std::vector<double>& want,
                 const std::function<double(size_t)>& allowed = {}) {
  double scale = 0, ratio = 0;
  for (const double w : want) scale = std::max(scale, std::abs(w));
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]) - (allowed ? allowed(i) : 0);
    const double r = scale > 0 ? error / (kUnit * scale) : error > 0 ? INFINITY : 0;
    if (!(r <= ratio)) ratio = std::isnan(r) ? INFINITY : r;
  }
  return {name, ratio};
}

std::vector<Compared> compare_tapes(const Tape& got, const Tape& want, double bound) {
  std::vector<Compared> all;
  const auto plain = [&](const std::string& name, Var var) {
    all.push_back(compare(name, got.download(var), want.download(var)));
  };
  for (const auto& [name, var] : want.outputs()) plain(name, var);
  for (const auto& [name, var] : want.states())
    if (name != "lr") plain(name, var);
  const bool adam = has_state(want, "m");
  const double lr = want.download(want.find("lr"))[0];
  for (const auto& [name, var] : want.named_parameters()) {
    if (!golden::has_gradient(want, var)) {
      plain(name, var);
      continue;
    }
    plain(name + ".gradient", want.gradient(var));
    const std::vector<double> g = want.download(want.gradient(var));
    double largest = 0;
    for (const double x : g) largest = std::max(largest, std::abs(x));
    all.push_back(compare(name, got.download(var), want.download(var),
                          [&](size_t i) { return adam ? adam_reach(g[i], bound * kUnit * largest, lr) : 0; }));
  }
  return all;
}
Compared worst(const std::vector<Compared>& all) {
  return *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
}

// --- ties ------------------------------------------------------------------------------------------------------------

// The slope of relu and the choice of max pooling jump: no sum may be so near to 0, and no two pixels of a window so
// near to each other, that rounding alone decides. This holds for the inputs of this seed; the forward pass has errors
// of about 4 u.
struct Closest {
  double gap = INFINITY;
  std::string where;
  void see(double value, double scale, const std::string& job) {
    if (value / scale < gap) {
      gap = value / scale;
      where = job;
    }
  }
};
void look_for_ties(const Tape& tape, const Tape::Node& node, Closest& closest) {
  const auto values = [&](Slot s) { return tape.download(node.slots[static_cast<size_t>(s.index)]); };
  std::vector<double> sums;
  if (node.problem.name() == Bias::name && node.problem.as<Bias>().act == Act::relu) {
    const auto& p = node.problem.as<Bias>();
    const std::vector<double> x = values(Bias::x), bias = values(Bias::bias);
    for (size_t i = 0; i < x.size(); ++i) sums.push_back(x[i] + bias[i / static_cast<size_t>(p.inner) % bias.size()]);
  } else if (node.problem.name() == Linear::name && node.problem.as<Linear>().act == Act::relu) {
    const auto& p = node.problem.as<Linear>();
    const std::vector<double> x = values(Linear::x), w = values(Linear::w), bias = values(Linear::bias);
    for (int64_t n = 0; n < p.n; ++n)
      for (int64_t o = 0; o < p.out; ++o) {
        double sum = bias[static_cast<size_t>(o)];
        for (int64_t i = 0; i < p.in; ++i)
          sum += x[static_cast<size_t>(n * p.in + i)] * w[static_cast<size_t>(o * p.in + i)];
        sums.push_back(sum);
      }
  } else if (node.problem.name() == MaxPool2d::name) {
    const auto& p = node.problem.as<MaxPool2d>();
    const std::vector<double> x = values(MaxPool2d::x);
    const double scale = *std::max_element(x.begin(), x.end());
    for (int64_t plane = 0; plane < p.images() * p.depth(); ++plane)
      for (int64_t i = 0; i < p.ho(); ++i)
        for (int64_t j = 0; j < p.wo(); ++j) {
          double first = -INFINITY, second = -INFINITY;
          p.in_window(i, j, [&](int64_t at) {
            const int64_t pixel = plane / p.depth() * p.h * p.w + at;
            const double v = x[static_cast<size_t>(pixel * p.depth() + plane % p.depth())];
            if (v > first)
              second = std::exchange(first, v);
            else
              second = std::max(second, v);
          });
          if (first > 0) closest.see(first - second, scale, node.job());  // after relu a whole window may be 0
        }
  }
  double scale = 0;
  for (const double s : sums) scale = std::max(scale, std::abs(s));
  for (const double s : sums) closest.see(std::abs(s), scale, node.job());
}

// Runs one step of the reference and looks for ties before each node.
void run_reference_step(Tape& want) {
  Closest closest;
  want.context().enter([&] {
    want.begin_step();
    for (size_t i = 0; i < want.nodes().size(); ++i) {
      look_for_ties(want, want.nodes()[i], closest);  // before the node runs: it may write in place
      want.run_node(i);
    }
  });
  EXPECT_GT(closest.gap, 8 * kUnit) << "a tie in " << closest.where << ": choose another seed";
}

// --- the comparison --------------------------------------------------------------------------------------------------

std::unique_ptr<Tape> tape_of(const Model& model, Context& context, const Tape::Preferences& preferences) {
  auto tape = std::make_unique<Tape>(context, preferences, kSeed);
  model.train(*tape);
  tape->plan();
  tape->fill_inputs(kSeed);
  return tape;
}

void check(const Model& model, const Tape& want, Context& context, const Tape::Preferences& preferences) {
  const auto got = tape_of(model, context, preferences);
  context.enter([&] { got->run(); });
  const double bound = bound_of(model);
  const std::vector<Compared> all = compare_tapes(*got, want, bound);
  for (const Compared& c : all)
    EXPECT_LE(c.ratio, bound) << model.name() << ": " << c.name << ", " << preferences[0] << " first, "
                              << context.describe();
  EXPECT_TRUE(got->guards_intact());
  if (std::getenv("DUET_PRINT_RATIOS"))
    std::printf("%s, %s first: %s %.2f\n", model.name().c_str(), preferences[0].c_str(), worst(all).name.c_str(),
                worst(all).ratio);
}

class ModelStep : public testing::TestWithParam<std::string> {
 protected:
  ModelStep() : reference_cpu_(1) {
    for (const ModelCase& c : model_cases(Scale::test))
      if (c.model.name() == GetParam()) {
        model_.emplace(c.model);
        break;  // only the first case: the reference is slow
      }
    want_ = tape_of(*model_, reference_cpu_, {"reference"});
    run_reference_step(*want_);
  }
  CpuContext reference_cpu_;
  std::optional<Model> model_;
  std::unique_ptr<Tape> want_;
};

TEST_P(ModelStep, EqualsTheReferenceOnTheCpu) {
  for (const int threads : {1, std::min(2, usable_threads())}) {
    CpuContext cpu(threads);
    check(*model_, *want_, cpu, Tape::preferences_for(Device::cpu));
    check(*model_, *want_, cpu, {"cpu.openblas", "cpu.tuned"});
  }
}

TEST_P(ModelStep, EqualsTheReferenceOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  check(*model_, *want_, *gpu, Tape::preferences_for(gpu->device()));
  check(*model_, *want_, *gpu, {"cuda.tuned", "cuda.naive"});
}

// The step as bench_all times it on a GPU, launched op by op and as one recorded graph: every op is compared with the
// reference, and steps of the graph with steps without it.
TEST_P(ModelStep, IsTheSameAsAGraphOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  for (const Step::Form form : {Step::Form::eager, Step::Form::graph}) {
    Step step(*model_, *gpu, Tape::preferences_for(gpu->device()), kSeed, form);
    ASSERT_TRUE(step.supported()) << step.reason();
    for (int i = 0; i < 3; ++i) gpu->enter([&] { step.run(); });
    const Check check = step.replay();
    EXPECT_TRUE(check.passed()) << model_->name() << ": " << check.failure;
  }
}

// Whether an output or another node uses this output: a model may leave some unused, such as the last c of an LSTM.
bool is_used(const Tape& tape, size_t writer, size_t slot) {
  const Tape::Node& node = tape.nodes()[writer];
  const int id = node.slots[slot].id;
  if (node.problem.tensors()[slot].role == Role::inout) return true;
  for (const auto& [name, var] : tape.outputs())
    if (var.id == id) return true;
  for (const auto& [name, var] : tape.named_parameters())
    if (tape.gradient(var).id == id) return true;
  for (const Tape::Node& reader : tape.nodes()) {
    const std::vector<TensorSpec> specs = reader.problem.tensors();
    for (size_t s = 0; s < specs.size(); ++s)
      if (specs[s].role != Role::out && reader.slots[s].id == id) return true;
  }
  return false;
}

// Changes each output of each node in turn by three thousandths; whole numbers, such as indices, by one.
TEST_P(ModelStep, FindsAFaultInAnyOutput) {
  CpuContext cpu(1);
  const auto got = tape_of(*model_, cpu, Tape::preferences_for(Device::cpu));
  const double bound = bound_of(*model_);
  for (size_t faulty = 0; faulty < got->nodes().size(); ++faulty) {
    const Tape::Node& node = got->nodes()[faulty];
    const std::vector<TensorSpec> specs = node.problem.tensors();
    for (size_t s = 0; s < specs.size(); ++s) {
      if (specs[s].role == Role::in || !is_used(*got, faulty, s)) continue;
      const bool near_zero = std::string(specs[s].name) == "mean";  // the mean of normalised values
      got->reset();
      cpu.enter([&] {
        got->begin_step();
        for (size_t i = 0; i < got->nodes().size(); ++i) {
          got->run_node(i);
          const Tensor t = got->tensor(node.slots[s]);
          if (i == faulty)
            for (int64_t e = 0; e < specs[s].elements(); ++e) {
              const double v = load_as_double(t.data, t.dtype, e);
              store_double(t.data, t.dtype, e,
                           near_zero               ? v + .02
                           : t.dtype == DType::f32 ? v * 1.003
                           : t.dtype == DType::u8  ? 1 - v
                                                   : v + 1);
            }
        }
      });
      EXPECT_GT(worst(compare_tapes(*got, *want_, bound)).ratio, bound)
          << model_->name() << ": " << specs[s].name << " of node " << faulty << ", " << node.job();
    }
  }
}

TEST(Optimiser, RefusesANegativeNormAndAnInfiniteOne) {
  for (const auto& [norm, text] : {std::pair(-1.0, "max_norm -1"), {INFINITY, "max_norm inf"}}) try {
      Problem::of(AdamW{.n = 1, .max_norm = norm}).validate();
      ADD_FAILURE() << text << " is accepted";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr(text));
    }
}

// Several steps, each from the state that the last one left: the loss falls, and equals the reference's.
TEST_P(ModelStep, LossFallsAsTheReferences) {
  CpuContext cpu(1);
  const auto got = tape_of(*model_, cpu, Tape::preferences_for(Device::cpu));
  cpu.enter([&] { got->run(); });
  const Var loss = got->find("loss");
  const double first = got->download(loss)[0];
  for (int step = 2; step <= 3; ++step) {
    cpu.enter([&] { got->run(); });
    reference_cpu_.enter([&] { want_->run(); });
  }
  // The noise of dropout in all layers of the transformers hides the effect of three small steps.
  if (!GetParam().starts_with("transformer") && GetParam() != "image_cnn") {
    EXPECT_LT(got->download(loss)[0], first);
  }
  // Through fifty normalisations, one relu that flips by rounding changes every later step.
  EXPECT_NEAR(got->download(loss)[0], want_->download(loss)[0], (GetParam() == "resnet50" ? 1e-3 : 1e-5) * first);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, model] : models()) all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Models, ModelStep, testing::ValuesIn(names()), [](const auto& test) { return test.param; });

// --- properties of all models -------------------------------------------------------------------------------------

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
    cpu.enter([&] {
      for (int i = 0; i < 3; ++i) step.run();
      for (size_t p = 0; p < step.phases().size(); ++p) step.run_phase(p);
      for (size_t p = 0; p < step.nodes().size(); ++p) step.run_node(p);
    });
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

// --- variants -----------------------------------------------------------------------------------------------------

// The test cases after a model's first: other layouts, other losses, compressed weights.
void check_variants(Context& context) {
  CpuContext reference_cpu(1);
  std::string last;
  for (const ModelCase& c : model_cases(Scale::test)) {
    if (std::exchange(last, c.model.name()) != c.model.name()) continue;
    if (c.model.label().find("f32") != 0 || c.model.name() == "resnet50") continue;  // its statistics amplify roundings
    SCOPED_TRACE(c.model.label());
    const auto want = tape_of(c.model, reference_cpu, {"reference"});
    run_reference_step(*want);
    check(c.model, *want, context, Tape::preferences_for(context.device()));
  }
}

TEST(Models, VariantsEqualTheReference) {
  CpuContext cpu(std::min(2, usable_threads()));
  check_variants(cpu);
}

TEST(Models, VariantsEqualTheReferenceOnTheGpu) {
  std::string reason;
  const std::unique_ptr<Context> gpu = open_gpu(reason);
  if (!gpu) GTEST_SKIP() << reason;
  check_variants(*gpu);
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
      double scale = 0, worst_error = 0;
      for (size_t e = 0; e < got.size(); ++e) {
        scale = std::max(scale, std::abs(static_cast<double>(want[e])));
        worst_error = std::max(worst_error, std::abs(got[e] - want[e]));
      }
      EXPECT_LE(worst_error, 1e-6 * scale) << parameter;  // of the values as f32
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
    EXPECT_LE(compare(name, padded->download(padded->gradient(padded->find(name))), want).ratio * kUnit, 1e-12) << name;
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
