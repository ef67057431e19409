// SPDX-License-Identifier: Apache-2.0
// Compares a whole step of every model by the CPU's implementations, at a small size, with one by PyTorch in double.
// The other tests compare ops with our own reference; this one compares wiring and conventions with an independent
// program, as far as f32 allows. golden_reference_step_test.cpp compares the formulas themselves.
#include <gtest/gtest.h>

#include <cmath>

#include "core/cpu_context.h"
#include "ops/optimiser/adam.h"
#include "tests/models/golden.h"

namespace duet::golden {
namespace {

const double kUnit = unit_roundoff(DType::f32);

// The bound of an element: C u max|want|. Errors of f32 in a step come from the order of summation and are amplified by
// the model's conditioning (batch normalisation over few elements is the worst). Both are measured where the file is
// made: the largest difference, over all tensors, between PyTorch's own step in f32 and its step in double. Another
// order of summation may be worse by a small factor (kMargin). A model so small that PyTorch hardly rounds gets the few
// units of a blocked sum instead (kMinUnits).
constexpr double kMargin = 4, kMinUnits = 20;

double bound_of(const Json& file) { return kMargin * std::max(kMinUnits, file.at("f32_off_by").get<double>()); }

// The bound of a tensor. more: what is added for element i; none where it is empty.
Bound bound_of(const Json& want, double units, const std::vector<double>& more = {}) {
  Bound bound{{units * kUnit * want.at("max").get<double>()}, 0, 0};
  const auto n = static_cast<double>(TensorSpec{"", Role::in, DType::f32, want.at("shape"), {}}.elements());
  if (more.empty()) {
    bound.dot = n * bound.element[0];
    bound.norm = std::sqrt(n) * bound.element[0];
    return bound;
  }
  const double each = bound.element[0];
  bound.element.clear();
  double squares = 0;
  for (const double m : more) {
    bound.element.push_back(each + m);
    bound.dot += each + m;  // no cosine is above 1
    squares += (each + m) * (each + m);
  }
  bound.norm = std::sqrt(squares);  // the triangle inequality
  return bound;
}

// How far Adam's first update, lr g / (|g| + eps), can change where g has the error e. The update is monotone in g.
double adam_reach(double g, double e, double lr, double eps) {
  const auto move = [&](double x) { return lr * x / (std::abs(x) + eps); };
  return std::max(move(g + e) - move(g), move(g) - move(g - e));
}

double eps_of(const Tape& tape) {  // 0: the optimiser is not Adam
  const Problem& optimiser = tape.nodes().back().problem;
  if (optimiser.name() == Adam::name) return optimiser.as<Adam>().eps;
  return optimiser.name() == AdamW::name ? optimiser.as<AdamW>().eps : 0;
}

// The tensors that differ from the file after a step, one line each.
std::vector<std::string> differences(const Json& file, const Tape& tape) {
  std::vector<std::string> found;
  const double bound = bound_of(file), eps = eps_of(tape), lr = tape.download(tape.find("lr"))[0];
  const Json& expected = file.at("expected").at("1");
  std::map<std::string, Var> here = compared_tensors(tape);
  std::map<std::string, Var> parameters;
  for (const auto& [name, var] : tape.named_parameters()) parameters[name] = var;
  for (const auto& [name, want] : expected.items()) {
    const auto at = here.find(name);
    if (at == here.end()) {
      found.push_back(name + " is missing");
      continue;
    }
    std::vector<double> more;
    if (eps > 0 && parameters.contains(name)) {
      const double e = bound * kUnit * expected.at(name + ".gradient").at("max").get<double>();
      for (const double g : tape.download(tape.gradient(at->second))) more.push_back(adam_reach(g, e, lr, eps));
    }
    const std::string what =
        difference(want, samples_of(file, name), download(tape, at->second), bound_of(want, bound, more));
    if (!what.empty()) found.push_back(name + " " + what);
    here.erase(at);
  }
  for (const auto& [name, var] : here) found.push_back(name + " is not in the file");
  return found;
}

// Inputs and parameters equal the file's up to the last place: NumPy's logarithm and cosine may differ in a normal
// draw.
std::vector<std::string> differences_given(const Json& file, const Tape& tape) {
  std::vector<std::string> found;
  const Json& given = file.at("given");
  for (const auto& [name, want] : given.items()) {
    const std::string what =
        difference(want, samples_of(file, name), download(tape, tape.find(name)), bound_of(want, 2));
    if (!what.empty()) found.push_back(name + " " + what);
  }
  for (const auto* list : {&tape.inputs(), &tape.named_parameters()})
    for (const auto& [name, var] : *list)
      if (!given.contains(name)) found.push_back(name + " is not in the file");
  return found;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  Golden() : file_(read(GetParam())), tape_(cpu_, Tape::preferences_for(Device::cpu), file_.at("seed")) {
    model_of(file_).train(tape_);
    tape_.plan();
    tape_.fill_inputs(file_.at("seed"));
  }
  void step() {
    cpu_.enter([&] { tape_.run(); });
  }
  const Json file_;
  CpuContext cpu_{1};
  Tape tape_;
};

TEST_P(Golden, StepEqualsPyTorchs) {
  const std::vector<std::string> given = differences_given(file_, tape_);
  ASSERT_TRUE(given.empty()) << where(file_)
                             << ": the step starts from something else, because the model's declarations have "
                             << "changed their order or fill: run the program again." << joined(given);
  step();
  const std::vector<std::string> found = differences(file_, tape_);
  EXPECT_TRUE(found.empty()) << where(file_) << ":" << joined(found);
}

// Changes each tensor in turn by a hundredth: the comparison must find it.
TEST_P(Golden, FindsAChangeOfAnyTensor) {
  step();
  for (const auto& [name, var] : compared_tensors(tape_)) {
    Tensor64 t = download(tape_, var);
    for (double& v : t.values) v *= 1.01;
    const Json& want = file_.at("expected").at("1").at(name);
    if (want.at("max").get<double>() == 0) continue;
    const Bound bound = bound_of(want, bound_of(file_));
    EXPECT_NE(difference(want, samples_of(file_, name), t, bound), "") << name;
    t.values.pop_back();
    t.shape.back() -= 1;
    EXPECT_NE(difference(want, samples_of(file_, name), t, bound), "") << name << ", an element less";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(names()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace duet::golden
