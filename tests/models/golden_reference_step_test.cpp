// SPDX-License-Identifier: Apache-2.0
// Compares three steps of every model on the reference tape, where every node runs by its op's reference in double,
// with PyTorch's in double: outputs, gradients, parameters, running statistics and, after the third step, the
// optimiser's state. Both round in double only, so that the bound is small enough to see a wrong constant, a parameter
// that was not updated, or one wrong row. The tests that plant such faults count how many are found.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "core/cpu_context.h"
#include "models/reference_plan.h"
#include "tests/models/golden.h"

namespace duet::golden {
namespace {

// Relative to a tensor's largest element; of its norm and its dot product with cosines, to its norm. Every model passes
// with 2e-11, too: the file's digits are exact to 5e-12, and roundings of double are smaller.
constexpr double kBound = 1e-9;
constexpr int kLastStep = 3;

Bound bound_of(const Json& want) {
  const double norm = want.at("norm").get<double>();
  return {{kBound * want.at("max").get<double>()}, kBound * norm, kBound * norm};
}

// Three steps of a model. They are run once and used by all tests of the model.
class ReferenceSteps {
 public:
  explicit ReferenceSteps(const std::string& model)
      : file(read(model)), tape_(cpu_, {"reference"}, file.at("seed").get<uint64_t>()) {
    model_of(file).train(tape_);
    tape_.plan();
    tape_.fill_inputs(file.at("seed"));
    for (const auto& [name, var] : tape_.inputs()) given[name] = download(tape_, var);
    for (const auto& [name, var] : tape_.named_parameters()) given[name] = download(tape_, var);
    for (const auto& [name, var] : tape_.states())
      if (is_float(tape_.dtype(var))) start_[name] = download(tape_, var);
    for (int step = 1; step <= kLastStep; ++step) {
      tape_.begin_step();
      for (size_t phase = 0; phase < tape_.phases().size(); ++phase) {
        if (tape_.phases()[phase] == "optimiser") gradients_.push_back(gradients());
        tape_.run_phase(phase);
      }
      after[step] = compared(step > 1);
    }
  }

  // The tensors after the first step when every node for which `change` returns a problem runs that one instead.
  using Change = std::function<const Problem*(const Tape::Node&)>;
  std::map<int, Tensors> first_changed(const Change& change) {
    tape_.reset();
    tape_.begin_step();
    for (size_t i = 0; i < tape_.nodes().size(); ++i) run_node(i, change);
    return {{1, compared(false)}};
  }
  // The same after steps 1 and 3 for changes of the optimiser: only its phase runs, on the gradients of the unchanged
  // run.
  std::map<int, Tensors> optimiser_changed(const Change& change) {
    tape_.reset();
    std::map<int, Tensors> result;
    for (int step = 1; step <= kLastStep; ++step) {
      const auto& g = gradients_[static_cast<size_t>(step - 1)];
      for (const auto& [name, var] : tape_.named_parameters()) {
        if (!has_gradient(tape_, var)) continue;
        const std::vector<double>& values = g.at(name).values;
        std::memcpy(tape_.tensor(tape_.gradient(var)).data, values.data(), values.size() * sizeof(double));
      }
      for (size_t i = 0; i < tape_.nodes().size(); ++i)
        if (of_optimiser(tape_.nodes()[i])) run_node(i, change);
      if (step != 1 && step != kLastStep) continue;
      Tensors all = compared(step > 1);
      for (auto& [name, tensor] : all)
        if (is_updated(name)) result[step].emplace(name, std::move(tensor));
    }
    return result;
  }
  const Tape& tape() const { return tape_; }
  bool of_optimiser(const Tape::Node& node) const { return tape_.phases()[node.phase] == "optimiser"; }
  // Whether the optimiser writes it: a parameter or its state.
  bool is_updated(const std::string& name) const {
    const std::string last = name.substr(name.rfind('.') + 1);
    return given.contains(name) || last == "m" || last == "v" || last == "velocity";
  }
  const Tensor64* start_of(const std::string& name) const {
    if (const auto at = given.find(name); at != given.end()) return &at->second;
    const auto at = start_.find(name);
    return at == start_.end() ? nullptr : &at->second;
  }

  const Json file;
  Tensors given;                 // inputs and initial parameters
  std::map<int, Tensors> after;  // each step

 private:
  void run_node(size_t i, const Change& change) {
    const Tape::Node& node = tape_.nodes()[i];
    const Problem* instead = change(node);
    if (!instead) return tape_.run_node(i);
    std::vector<Tensor> tensors;
    for (const Var var : node.slots) tensors.push_back(tape_.tensor(var));
    Plan plan = reference_plan(*instead);
    plan(Args(tensors.data()));
  }
  Tensors gradients() const {
    Tensors all;
    for (const auto& [name, var] : tape_.named_parameters()) all[name] = download(tape_, tape_.gradient(var));
    return all;
  }
  // with_optimiser: also <parameter>.m, .v, .velocity, which lie in one arena each as the parameters do.
  Tensors compared(bool with_optimiser) const {
    Tensors all;
    for (const auto& [name, var] : compared_tensors(tape_)) all[name] = download(tape_, var);
    if (!with_optimiser) return all;
    const auto* arena = static_cast<const double*>(tape_.tensor(tape_.named_parameters().front().second).data);
    for (const auto& [state, held] : tape_.states()) {
      if (state != "m" && state != "v" && state != "velocity") continue;
      const std::vector<double> values = tape_.download(held);
      for (const auto& [name, var] : tape_.named_parameters()) {
        const Tensor memory = tape_.tensor(var);
        const auto first = values.begin() + (static_cast<const double*>(memory.data) - arena);
        const auto count = static_cast<std::ptrdiff_t>(tape_.download(var).size());
        all[name + "." + state] = {tape_.shape(var), {first, first + count}};
      }
    }
    return all;
  }

  CpuContext cpu_{1};
  Tape tape_;
  Tensors start_;                   // states before the first step
  std::vector<Tensors> gradients_;  // of each step, before the optimiser
};

ReferenceSteps& steps_of(const std::string& model) {
  static std::map<std::string, std::unique_ptr<ReferenceSteps>> known;
  std::unique_ptr<ReferenceSteps>& steps = known[model];
  if (!steps) steps = std::make_unique<ReferenceSteps>(model);
  return *steps;
}

std::string difference(const Json& file, const Json& part, const std::string& name, const Tensor64& got) {
  return golden::difference(part.at(name), samples_of(file, name), got, bound_of(part.at(name)));
}

// The tensors that differ from a part of the file, one line each.
std::vector<std::string> differences(const Json& file, const Json& part, const Tensors& got) {
  std::vector<std::string> found;
  for (const auto& [name, want] : part.items()) {
    const auto at = got.find(name);
    const std::string what = at == got.end() ? "is missing" : difference(file, part, name, at->second);
    if (!what.empty()) found.push_back(name + " " + what);
  }
  for (const auto& [name, tensor] : got)
    if (!part.contains(name)) found.push_back(name + " is not in the file");
  return found;
}

class GoldenReference : public testing::TestWithParam<std::string> {
 protected:
  ReferenceSteps& steps_ = steps_of(GetParam());
};

TEST_P(GoldenReference, StepsEqualPyTorchs) {
  const std::vector<std::string> given = differences(steps_.file, steps_.file.at("given"), steps_.given);
  ASSERT_TRUE(given.empty()) << where(steps_.file)
                             << ": the steps start from something else, because the model's declarations have "
                             << "changed their order or fill: run the program again." << joined(given);
  for (const auto& [step, part] : steps_.file.at("expected").items()) {
    const std::vector<std::string> found = differences(steps_.file, part, steps_.after.at(std::stoi(step)));
    EXPECT_TRUE(found.empty()) << where(steps_.file) << ", step " << step << ":" << joined(found);
  }
}

// --- planted faults -----------------------------------------------------------------------------------------------

struct Fault {
  std::string what;
  std::vector<double> values;
};

// Rows of a tensor that a fault is planted in: all of them, or kRows spread evenly.
std::vector<int64_t> rows_of(const Tensor64& t) {
  constexpr int64_t kRows = 12;
  const int64_t rows = t.shape.empty() ? 1 : t.shape[0];
  std::vector<int64_t> chosen;
  for (int64_t r = 0; r < std::min(rows, kRows); ++r)
    chosen.push_back(rows <= kRows ? r : r * (rows - 1) / (kRows - 1));
  return chosen;
}

// start: the tensor before the first step, or null. before: after the first of three steps, or null.
std::vector<Fault> faults_of(const Tensor64& right, const Tensor64* start, const Tensor64* before) {
  std::vector<Fault> all;
  const auto changed = [&](const std::string& what, const auto& change) {
    all.push_back({what, right.values});
    change(all.back().values);
  };
  const auto n = static_cast<int64_t>(right.values.size()), rows = right.shape.empty() ? 1 : right.shape[0];
  const int64_t cols = n / std::max<int64_t>(1, rows);
  changed("zeros", [](auto& v) { std::fill(v.begin(), v.end(), 0.0); });
  changed("larger by 0.1 %", [](auto& v) { std::for_each(v.begin(), v.end(), [](double& e) { e *= 1.001; }); });
  changed("the other sign", [](auto& v) { std::for_each(v.begin(), v.end(), [](double& e) { e = -e; }); });
  if (start) changed("not updated", [&](auto& v) { v = start->values; });
  if (before) changed("not updated after the first step", [&](auto& v) { v = before->values; });
  for (const int64_t r : rows_of(right)) {
    const auto row = [r, cols](auto& v) { return v.begin() + r * cols; };
    changed(fmt::format("row {} zero", r), [&](auto& v) { std::fill(row(v), row(v) + cols, 0.0); });
    changed(fmt::format("row {} twice", r),
            [&](auto& v) { std::for_each(row(v), row(v) + cols, [](double& e) { e *= 2; }); });
    if (start)
      changed(fmt::format("row {} not updated", r),
              [&](auto& v) { std::copy_n(start->values.begin() + r * cols, cols, row(v)); });
    if (r + 1 < rows)
      changed(fmt::format("rows {} and {} exchanged", r, r + 1),
              [&](auto& v) { std::swap_ranges(row(v), row(v) + cols, row(v) + cols); });
  }
  return all;
}

// A change that no element shows, such as a row of zeros that becomes zeros, is no fault.
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  double max = 0, change = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    max = std::max(max, std::abs(a[i]));
    change = std::max(change, std::abs(a[i] - b[i]));
  }
  return change <= 2 * kBound * max;
}

struct Count {
  int planted = 0;
  std::vector<std::string> unseen;
  // What changes one small element by little more than the bound may go unseen: at most one fault in a thousand.
  bool few_unseen() const { return static_cast<int>(unseen.size()) * 1000 <= planted; }
};

TEST_P(GoldenReference, FindsPlantedFaults) {
  Count count;
  for (const auto& [text, part] : steps_.file.at("expected").items()) {
    const int step = std::stoi(text);
    for (const auto& [name, right] : steps_.after.at(step)) {
      const Tensor64* before = step > 1 && steps_.after.at(1).contains(name) ? &steps_.after.at(1).at(name) : nullptr;
      for (Fault& fault : faults_of(right, steps_.start_of(name), before)) {
        if (same(right.values, fault.values)) continue;
        ++count.planted;
        if (difference(steps_.file, part, name, {right.shape, std::move(fault.values)}).empty())
          count.unseen.push_back(fmt::format("step {}: {}: {}", step, name, fault.what));
      }
    }
  }
  fmt::print("{}: {} of {} planted faults found\n", GetParam(), count.planted - static_cast<int>(count.unseen.size()),
             count.planted);
  EXPECT_TRUE(count.few_unseen()) << joined(count.unseen);
}

// Other values for a constant of an op: near by, and another one that a mistake could bring.
std::vector<double> other_values(double value) {
  if (value == 0) return {0.01};
  return {value * 0.99, value * (value < 1e-3 ? 100 : 0.5), 0};
}

// Every number among the attributes of the model's ops, changed in all nodes of the op at once: epsilons, momentum of
// running statistics, the probability of dropout; and the optimiser's betas, momentum, decay, norm to clip to.
TEST_P(GoldenReference, FindsWrongConstants) {
  Count count;
  std::set<std::pair<std::string, std::string>> done;
  for (const Tape::Node& node : steps_.tape().nodes())
    for (const Attribute& a : node.problem.attributes()) {
      if (a.type != "float" || !done.emplace(node.problem.name(), a.name).second) continue;
      for (const double value : other_values(std::get<double>(a.value))) {
        std::optional<Problem> wrong;
        const auto change = [&](const Tape::Node& other) -> const Problem* {
          if (other.problem.name() != node.problem.name()) return nullptr;
          wrong = other.problem.with(a.name, fmt::format("{}", value));
          wrong->validate();
          return &*wrong;
        };
        std::map<int, Tensors> got;
        try {
          got = steps_.of_optimiser(node) ? steps_.optimiser_changed(change) : steps_.first_changed(change);
        } catch (const Error&) {
          continue;  // the op refuses this value
        }
        ++count.planted;
        bool found = false;
        for (const auto& [step, tensors] : got)
          for (const auto& [name, tensor] : tensors)
            found = found ||
                    !difference(steps_.file, steps_.file.at("expected").at(std::to_string(step)), name, tensor).empty();
        if (!found) count.unseen.push_back(fmt::format("{} of {}: {}", a.name, node.problem.name(), value));
      }
    }
  fmt::print("{}: {} of {} wrong constants found\n", GetParam(), count.planted - static_cast<int>(count.unseen.size()),
             count.planted);
  EXPECT_TRUE(count.unseen.empty()) << joined(count.unseen);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenReference, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace duet::golden
