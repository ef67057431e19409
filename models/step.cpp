// SPDX-License-Identifier: Apache-2.0
#include "models/step.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "models/layers.h"

namespace duet {
namespace {
// Timing repeats a step some 10^5 times on one batch. With a usual learning rate the model would fit that batch
// exactly: gradients would vanish, and logits would leave the range for which the contracts' tolerances are derived.
// With this one the parameters stay near their initial values, and an update is still 50 roundings of a parameter, so
// that a replay sees it. Adam moves a parameter by about the learning rate whatever its gradient, so its learning rate
// is smaller.
constexpr float kTimedLearningRate = 1e-6f, kTimedAdamLearningRate = 1e-8f;
}  // namespace

std::string step_job_name(const Model& model, const std::string& side) {
  return "step/" + model.name() + "/" + side + "/" + model.label();
}

Step::Step(const Model& model, Context& context, Tape::Preferences preferences, uint64_t seed, Form form)
    : tape_(std::make_unique<Tape>(context, std::move(preferences), seed)) {
  const auto start = std::chrono::steady_clock::now();
  model.train(*tape_);
  try {
    tape_->plan();
  } catch (const NotServed& e) {
    reason_ = e.what();
    return;
  }
  create_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const Tape::Node& p : tape_->nodes())
    nodes_.push_back({p.job(), p.implementation, tape_->phases()[p.phase], p.problem.flops(), p.problem.bytes()});
  tape_->fill_inputs(seed);
  start_anew();
  if (form == Form::eager) return;
  context.enter([&] { tape_->run(); });  // what libraries create at a first call must exist before the recording
  context.synchronize();
  context.enter([&] {
    graph_ = record_graph(
        context,
        [&] {
          for (size_t p = 0; p < tape_->phases().size(); ++p) tape_->run_phase(p);
        },
        reason_);
  });
  start_anew();
  create_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Step::start_anew() {
  tape_->reset();
  const auto& nodes = tape_->nodes();
  const bool adam =
      std::any_of(nodes.begin(), nodes.end(), [](const Tape::Node& p) { return p.problem.name().starts_with("adam"); });
  const float learning_rate = adam ? kTimedAdamLearningRate : kTimedLearningRate;
  tape_->upload(tape_->find("lr"), std::span(&learning_rate, 1));
}

double Step::flops() const {
  double sum = 0;
  for (const Node& p : nodes_) sum += p.flops;
  return sum;
}
int64_t Step::bytes() const {
  int64_t sum = 0;
  for (const Node& p : nodes_) sum += p.bytes;
  return sum;
}

std::vector<std::pair<std::string, std::string>> Step::implementations() const {
  std::map<std::string, std::string> chosen;
  for (const Tape::Node& p : tape_->nodes()) {
    std::string& names = chosen[p.problem.name()];
    if ((", " + names + ", ").find(", " + p.implementation + ", ") == std::string::npos)
      names += (names.empty() ? "" : ", ") + p.implementation;
  }
  return {chosen.begin(), chosen.end()};
}

void Step::evict() {
  for (const auto& [memory, bytes] : tape_->memory())
    if (bytes > 0) tape_->context().evict(memory, bytes);
}

// How a step as a graph differs from one without; "" where it does not. The outputs must be equal bit for bit: plans
// and launches are the same, and forward passes are deterministic.
std::string Step::graph_failure() {
  std::vector<std::vector<double>> eager;
  for (const bool graph : {false, true}) {
    start_anew();
    tape_->context().enter([&] { graph ? run() : tape_->run(); });
    tape_->context().synchronize();
    size_t i = 0;
    for (const auto& [name, var] : tape_->outputs())
      if (!graph)
        eager.push_back(tape_->download(var));
      else if (tape_->download(var) != eager[i++])
        return "graph: output " + name + " is not that of the same step without a graph";
  }
  return "";
}

// Runs steps until the loss scale no longer falls, so that the gradients of the checked step do not overflow.
void Step::wait_for_loss_scale() {
  const auto& states = tape_->states();
  const auto scale = std::find_if(states.begin(), states.end(), [](const auto& s) { return s.first == kLossScale; });
  if (scale == states.end()) return;
  for (double before = 0, now = tape_->download(scale->second)[0]; now != before && now > 0;) {
    tape_->context().enter([&] { tape_->run(); });
    before = std::exchange(now, tape_->download(scale->second)[0]);
  }
}

Check Step::replay(uint64_t seed) {
  wait_for_loss_scale();
  Check check = duet::replay(*tape_, seed);
  if (graph_ && check.passed()) check.failure = graph_failure();
  return check;
}

std::vector<std::pair<void*, int64_t>> Step::rewritten(size_t node) const {
  const Tape::Node& p = tape_->nodes()[node];
  const std::vector<TensorSpec> specs = p.problem.tensors();
  std::vector<std::pair<void*, int64_t>> list;
  for (size_t s = 0; s < specs.size(); ++s) {
    void* const data = tape_->tensor(p.slots[s]).data;
    bool read = specs[s].role == Role::inout;
    for (size_t other = 0; other < specs.size(); ++other)
      read |= specs[other].role == Role::in && tape_->tensor(p.slots[other]).data == data;
    if (read && specs[s].role != Role::in) list.emplace_back(data, tape_->bytes(p.slots[s]));
  }
  return list;
}

std::vector<std::pair<void*, int64_t>> Step::device_inputs() const {
  std::vector<std::pair<void*, int64_t>> list;
  for (const auto& [name, var] : tape_->inputs()) list.emplace_back(tape_->tensor(var).data, tape_->bytes(var));
  return list;
}
std::vector<std::pair<void*, int64_t>> Step::device_outputs() const {
  std::vector<std::pair<void*, int64_t>> list;
  for (const auto& [name, var] : tape_->outputs()) list.emplace_back(tape_->tensor(var).data, tape_->bytes(var));
  return list;
}

}  // namespace duet
