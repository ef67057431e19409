// SPDX-License-Identifier: Apache-2.0
// Compares a whole step of every model, at a small size, with one by PyTorch. tools/golden/make_golden.py wrote
// PyTorch's to tests/golden/<model>.json, in double, from the inputs and parameters that a tape of the same seed draws.
// The other tests compare ops with our own reference; this one compares formulas, wiring and conventions with an
// independent program.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/cpu_context.h"
#include "core/error.h"
#include "models/model.h"
#include "models/tape.h"
#include "ops/optimiser/adam.h"

namespace duet {
namespace {

using Json = nlohmann::ordered_json;  // attributes are set in the order of the file
const double kUnit = unit_roundoff(DType::f32);

// The bound of an element: C u max|want|. Errors of f32 in a step come from the order of summation and are amplified by
// the model's conditioning (batch normalisation over few elements is the worst). Both are measured where the file is
// made: the largest difference, over all tensors, between PyTorch's own step in f32 and its step in double. Another
// order of summation may be worse by a small factor (kMargin). A model so small that PyTorch hardly rounds gets the few
// units of a blocked sum instead (kMinUnits).
constexpr double kMargin = 4, kMinUnits = 20;

double bound_of(const Json& golden) { return kMargin * std::max(kMinUnits, golden.at("f32_off_by").get<double>()); }

struct Tensor64 {
  Shape shape;
  std::vector<double> values;
};

// An addition to the bound of element i: empty, or for a parameter after Adam's update.
using Allowed = std::function<double(size_t)>;

Shape without_ones(Shape shape) {  // (1, m, n) of a batched product is a matrix here
  std::erase(shape, 1);
  return shape;
}

// "" where `got` equals the file: shape, norm, sum and samples, each element within bound u max|want| + allowed.
std::string difference(const Json& want, const Tensor64& got, double bound, const Allowed& allowed) {
  if (without_ones(want.at("shape")) != without_ones(got.shape))
    return "has another shape than " + want.at("shape").dump();
  const double each = bound * kUnit * want.at("max").get<double>();
  double sum = 0, squares = 0, sum_allowed = 0, squares_allowed = 0;
  for (size_t i = 0; i < got.values.size(); ++i) {
    const double slack = each + (allowed ? allowed(i) : 0);
    sum += got.values[i];
    squares += got.values[i] * got.values[i];
    sum_allowed += slack;
    squares_allowed += slack * slack;
  }
  const auto wrong = [](const std::string& what, double is, double should, double by) {
    char text[160];
    std::snprintf(text, sizeof text, ": %.9g, not %.9g within %.2g", is, should, by);
    return what + text;
  };
  const auto& index = want.at("index");
  for (size_t s = 0; s < index.size(); ++s) {
    const auto i = index[s].get<size_t>();
    const double should = want.at("value")[s].get<double>(), by = each + (allowed ? allowed(i) : 0);
    if (!(std::abs(got.values.at(i) - should) <= by))
      return wrong("element " + std::to_string(i), got.values[i], should, by);
  }
  const double norm = want.at("norm").get<double>(), total = want.at("sum").get<double>();
  if (!(std::abs(std::sqrt(squares) - norm) <= std::sqrt(squares_allowed)))  // the triangle inequality
    return wrong("norm", std::sqrt(squares), norm, std::sqrt(squares_allowed));
  if (!(std::abs(sum - total) <= sum_allowed)) return wrong("sum", sum, total, sum_allowed);
  return "";
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

// Outputs, gradients, parameters and states, without the optimiser's own states.
std::map<std::string, Var> compared_tensors(const Tape& tape) {
  std::map<std::string, Var> all;
  for (const auto& [name, var] : tape.outputs()) all[name] = var;
  for (const auto& [name, var] : tape.named_parameters()) {
    all[name] = var;
    all[name + ".gradient"] = tape.gradient(var);
  }
  static const std::set<std::string> kOptimiser{"lr", "step", "m", "v", "velocity"};
  for (const auto& [name, var] : tape.states())
    if (!kOptimiser.contains(name) && is_float(tape.dtype(var))) all[name] = var;
  return all;
}

Tensor64 download(const Tape& tape, Var var) { return {tape.shape(var), tape.download(var)}; }

// The tensors that differ from the file, one line each.
std::vector<std::string> differences(const Json& golden, const Tape& tape) {
  std::vector<std::string> found;
  const double bound = bound_of(golden), eps = eps_of(tape), lr = tape.download(tape.find("lr"))[0];
  const Json& expected = golden.at("expected");
  std::map<std::string, Var> here = compared_tensors(tape);
  std::map<int, std::vector<double>> gradients;
  std::map<std::string, Var> parameters;
  for (const auto& [name, var] : tape.named_parameters()) parameters[name] = var;
  for (const auto& [name, want] : expected.items()) {
    const auto at = here.find(name);
    if (at == here.end()) {
      found.push_back(name + " is missing");
      continue;
    }
    Allowed allowed;
    if (eps > 0 && parameters.contains(name)) {
      const double e = bound * kUnit * expected.at(name + ".gradient").at("max").get<double>();
      allowed = [g = tape.download(tape.gradient(at->second)), e, lr, eps](size_t i) {
        return adam_reach(g[i], e, lr, eps);
      };
    }
    const std::string what = difference(want, download(tape, at->second), bound, allowed);
    if (!what.empty()) found.push_back(name + " " + what);
    here.erase(at);
  }
  for (const auto& [name, var] : here) found.push_back(name + " is not in the file");
  return found;
}

// Inputs and parameters equal the file's up to the last place: NumPy's logarithm and cosine may differ in a normal
// draw.
std::vector<std::string> differences_given(const Json& golden, const Tape& tape) {
  std::vector<std::string> found;
  const Json& given = golden.at("given");
  for (const auto& [name, want] : given.items()) {
    const std::string what = difference(want, download(tape, tape.find(name)), 2, {});
    if (!what.empty()) found.push_back(name + " " + what);
  }
  for (const auto* list : {&tape.inputs(), &tape.named_parameters()})
    for (const auto& [name, var] : *list)
      if (!given.contains(name)) found.push_back(name + " is not in the file");
  return found;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

Json read(const std::string& model) {
  const std::string path = std::string(DUET_SOURCE_DIR) + "/tests/golden/" + model + ".json";
  std::ifstream file(path);
  if (!file) throw Error("{}: cannot be read; tools/golden/make_golden.py {} writes it", path, model);
  return Json::parse(file);
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  Golden() : golden_(read(GetParam())), tape_(cpu_, Tape::preferences_for(Device::cpu), golden_.at("seed")) {
    Model model = find_model(GetParam());
    for (const auto& [name, text] : golden_.at("attributes").items()) model = model.with(name, text.get<std::string>());
    model.train(tape_);
    tape_.plan();
    tape_.fill_inputs(golden_.at("seed"));
  }
  void step() {
    cpu_.enter([&] { tape_.run(); });
  }
  std::string where() const {
    const Json& made = golden_.at("made");
    return "tests/golden/" + GetParam() + ".json, by " + made.at("by").get<std::string>() + " with torch " +
           made.at("torch").get<std::string>() + " on " + made.at("date").get<std::string>();
  }
  const Json golden_;
  CpuContext cpu_{1};
  Tape tape_;
};

TEST_P(Golden, StepEqualsPyTorchs) {
  const std::vector<std::string> given = differences_given(golden_, tape_);
  ASSERT_TRUE(given.empty()) << where()
                             << ": the step starts from something else, because the model's declarations have "
                             << "changed their order or fill: run the program again." << joined(given);
  step();
  const std::vector<std::string> found = differences(golden_, tape_);
  EXPECT_TRUE(found.empty()) << where() << ":" << joined(found);
}

// Changes each tensor in turn by a hundredth: the comparison must find it.
TEST_P(Golden, FindsAChangeOfAnyTensor) {
  step();
  for (const auto& [name, var] : compared_tensors(tape_)) {
    Tensor64 t = download(tape_, var);
    for (double& v : t.values) v *= 1.01;
    const Json& want = golden_.at("expected").at(name);
    if (want.at("max").get<double>() == 0) continue;
    EXPECT_NE(difference(want, t, bound_of(golden_), {}), "") << name;
    t.values.pop_back();
    t.shape.back() -= 1;
    EXPECT_NE(difference(want, t, bound_of(golden_), {}), "") << name << ", an element less";
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, model] : models()) all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(names()), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace duet
