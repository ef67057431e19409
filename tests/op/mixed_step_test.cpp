// Mixed precision: steps in bf16 with master parameters in f32, against the same tape on the oracle in double.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/cpu_context.h"
#include "models/step.h"
#include "models/tape.h"
#include "models/model.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 3;

// The bound of a gradient, in norm: C u |want|, with u that of bf16. Every activation is rounded once, relatively by u at
// most; a layer passes the error of its input on and adds its own, so that after d layers, forward and back, roundings of
// either sign leave some sqrt(2 d) u. C was measured (2-core AVX-512 VM, g++ 12.2, 2026-11-21: DUET_PRINT_RATIOS=1
// build/bin/duet_op_tests --gtest_filter='Mixed.*'); kMargin is for other orders of summation.
constexpr double kMargin = 2;
struct Case {
  const char* model;
  std::vector<std::pair<const char*, const char*>> attributes;
  double measured;
};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}
double norm(const std::vector<double>& a) { return distance(a, std::vector<double>(a.size())); }

std::unique_ptr<Tape> tape_of(const Model& model, Context& context, const Tape::Preferences& preferences) {
  auto tape = std::make_unique<Tape>(context, preferences, kSeed);
  model.train(*tape);
  tape->plan();
  tape->fill_inputs(kSeed);
  return tape;
}

class Mixed : public testing::TestWithParam<Case> {};

TEST_P(Mixed, StepIsThatOfTheOracle) {
  Model model = find_model(GetParam().model);
  for (const auto& [name, value] : GetParam().attributes) model = model.with(name, value);
  CpuContext cpu(1);
  const auto got = tape_of(model, cpu, Tape::preferences_for(Device::cpu)), want = tape_of(model, cpu, {"oracle"});
  const std::vector<double> before = got->download(got->find("master"));
  cpu.enter([&] { got->run(), want->run(); });

  double worst = 0;
  for (const auto& [name, var] : want->named_parameters()) {
    const std::vector<double> g = got->download(got->gradient(var)), w = want->download(want->gradient(var));
    const double ratio = distance(g, w) / (unit_roundoff(DType::bf16) * norm(w));
    EXPECT_LE(ratio, kMargin * GetParam().measured) << name;
    worst = std::max(worst, ratio);
  }
  if (std::getenv("DUET_PRINT_RATIOS")) std::printf("%s: %.2f\n", model.name().c_str(), worst);

  // The master moved by less than bf16 can tell, and the parameters are the master, rounded.
  const std::vector<double> master = got->download(got->find("master"));
  EXPECT_GT(distance(master, before), 0);
  const Tape& tape = *got;
  for (const auto& [name, var] : tape.named_parameters()) {
    const std::vector<double> p = tape.download(var);
    const auto first =
        static_cast<size_t>((static_cast<const char*>(tape.tensor(var).data) -
                             static_cast<const char*>(tape.tensor(tape.named_parameters()[0].second).data)) /
                            size_of(DType::bf16));
    for (size_t i = 0; i < p.size(); ++i) ASSERT_EQ(p[i], round_to(DType::bf16, master[first + i])) << name << " " << i;
  }
}

const Case kCases[] = {{"lenet", {{"batch", "3"}, {"dtype", "bf16"}, {"mixed", "1"}}, 14},
                       {"gpt2",
                        {{"batch", "2"},
                         {"tokens", "7"},
                         {"context", "11"},
                         {"layers", "2"},
                         {"heads", "3"},
                         {"width", "24"},
                         {"vocabulary", "31"},
                         {"dtype", "bf16"},
                         {"mixed", "1"}},
                        2.4}};
INSTANTIATE_TEST_SUITE_P(Models, Mixed, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.model); });

// A narrowed ResNet-50 normalises by the statistics of a few pixels fifty times over: roundings to bf16 grow until no bound
// of a whole step says anything. Each of its primitives is judged in its place instead.
TEST(MixedPrecision, ResNetIsRightPrimitiveByPrimitive) {
  Model model = find_model("resnet50");
  for (const auto& [name, value] :
       {std::pair{"batch", "2"}, {"side", "64"}, {"classes", "10"}, {"width", "4"}, {"dtype", "bf16"}, {"mixed", "1"}})
    model = model.with(name, value);
  CpuContext cpu(1);
  Step step(model, cpu, Tape::preferences_for(Device::cpu));
  ASSERT_TRUE(step.supported()) << step.reason();
  cpu.enter([&] { step.run(), step.run(); });
  const Check check = step.replay();
  EXPECT_TRUE(check.passed()) << check.failure;
}

TEST(MixedPrecision, NeedsAHalf) {
  try {
    find_model("lenet").with("mixed", "1");
    FAIL() << "mixed with f32 was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("bf16 or f16"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace duet
