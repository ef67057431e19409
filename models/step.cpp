// SPDX-License-Identifier: Apache-2.0
#include "models/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "core/digest.h"
#include "models/layers.h"

namespace duet {
namespace {
// Timing repeats a step some 10^5 times on one batch. With a usual learning rate the model would fit that batch
// exactly: gradients would vanish, and logits would leave the range for which the contracts' tolerances are derived.
// With this one the parameters stay near their initial values, and an update is still 50 roundings of a parameter, so
// that a replay sees it. Adam moves a parameter by about the learning rate whatever its gradient, so its learning rate
// is smaller.
constexpr float kTimedLearningRate = 1e-6f, kTimedAdamLearningRate = 1e-8f;

uint64_t checksum(const Tape& tape, Var var) {
  const Tensor t = tape.tensor(var);
  return digest(tape.context(), t.data, t.dtype, tape.bytes(var) / size_of(t.dtype)).checksum;
}

// Whether two tensors are equal but for roundings in the sums that led to them: by 2^-10 of the largest value in f32,
// by 2^-4 in 16 bits. A gradient that was not written differs by far more; an update that is missing is seen in the
// optimiser's state.
bool differ_by_roundings(const std::vector<unsigned char>& a, const std::vector<unsigned char>& b, DType dtype) {
  if (!is_float(dtype)) return false;
  const auto count = static_cast<int64_t>(a.size()) / size_of(dtype);
  double max = 0, difference = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = load_as_double(a.data(), dtype, i), y = load_as_double(b.data(), dtype, i);
    if (std::isnan(x) != std::isnan(y)) return false;
    if (std::isnan(x) || x == y) continue;
    max = std::max({max, std::abs(x), std::abs(y)});
    difference = std::max(difference, std::abs(x - y));
  }
  return difference <= max * (size_of(dtype) == 2 ? 0x1p-4 : 0x1p-10);
}
}  // namespace

const char* folder_of(Pass pass) { return pass == Pass::training ? "step/" : "infer/"; }

std::string step_job_name(const Model& model, const std::string& side, Pass pass) {
  return folder_of(pass) + model.name() + "/" + side + "/" + model.label();
}

Step::Step(const Model& model, Context& context, Tape::Preferences preferences, uint64_t seed, Form form, Pass pass,
           Choice choice)
    : pass_(pass), tape_(std::make_unique<Tape>(context, std::move(preferences), seed)) {
  const auto start = std::chrono::steady_clock::now();
  tape_->choose_by(choice);
  pass == Pass::training ? model.train(*tape_) : model.evaluate(*tape_);
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
  take_small_steps();
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
  take_small_steps();
}

void Step::take_small_steps() {
  if (pass_ == Pass::inference) return;
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
  if (tape_->context().device() != Device::cpu) return tape_->context().evict(nullptr, 0);  // a GPU's caches as a whole
  for (const auto& [memory, bytes] : tape_->memory())
    if (bytes > 0) tape_->context().evict(memory, bytes);
}

// Compares what a step leaves as a graph and op by op, from the same state; "" where both are the same. Plans and
// launches are the same, so all bits are, but for roundings where a plan says that they vary.
std::string Step::graph_failure() {
  std::vector<Result> eager;
  for (const bool graph : {false, true}) {
    start_anew();
    wait_for_loss_scale();  // a step that overflows updates nothing
    tape_->context().enter([&] { graph ? run() : tape_->run(); });
    tape_->context().synchronize();
    if (!graph) eager = results(persistent());
  }
  size_t i = 0;
  for (const auto& [name, var] : persistent())
    if (!is_result(var, eager[i++])) return "graph: " + name + " is not that of the same step without a graph";
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

Check Step::replay(uint64_t seed, double elements_s) {
  wait_for_loss_scale();
  Check check = duet::replay(*tape_, seed, elements_s);
  if (graph_ && check.passed()) check.failure = graph_failure();
  return check;
}

std::vector<unsigned char> Step::bytes_of(Var var) const {
  std::vector<unsigned char> bytes(static_cast<size_t>(tape_->bytes(var)));
  tape_->context().download(bytes.data(), tape_->tensor(var).data, tape_->bytes(var));
  return bytes;
}

bool Step::varies() const {
  const auto& nodes = tape_->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Tape::Node& n) { return n.plan->varies; });
}

Step::Result Step::result(Var var) const {
  return {checksum(*tape_, var), varies() ? bytes_of(var) : std::vector<unsigned char>{}};
}

bool Step::is_result(Var var, const Result& before) const {
  return checksum(*tape_, var) == before.checksum ||
         (varies() && differ_by_roundings(bytes_of(var), before.bytes, tape_->dtype(var)));
}

std::vector<Step::Result> Step::results(const std::vector<std::pair<std::string, Var>>& vars) const {
  std::vector<Result> all;
  for (const auto& [name, var] : vars) all.push_back(result(var));
  return all;
}

void Step::draw_inputs(uint64_t seed) {
  tape_->fill_inputs(seed);
  wait_for_loss_scale();
  inputs_.clear();
  tape_->context().synchronize();
  for (const auto& [name, var] : tape_->inputs()) inputs_.push_back(checksum(*tape_, var));
}

std::string Step::changed_input() {
  tape_->context().synchronize();
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (const auto& [name, var] = tape_->inputs()[i]; checksum(*tape_, var) != inputs_[i]) return name;
  return "";
}

// What a step leaves, by name.
std::vector<std::pair<std::string, Var>> Step::persistent() const {
  std::vector<std::pair<std::string, Var>> all = tape_->outputs();
  for (const auto& [name, var] : tape_->named_parameters()) {
    all.emplace_back(name, var);
    if (tape_->has_gradients()) all.emplace_back("gradient of " + name, tape_->gradient(var));
  }
  for (const auto* list : {&tape_->states(), &tape_->inputs()}) all.insert(all.end(), list->begin(), list->end());
  return all;
}

void Step::copy_persistent(bool back) {
  Context& context = tape_->context();
  context.synchronize();
  const auto arenas = tape_->persistent_memory();
  for (size_t i = 0; i < arenas.size(); ++i) {
    void *const there = arenas[i].first, *const here = kept_[i].data();
    if (arenas[i].second > 0) context.copy_within(back ? there : here, back ? here : there, arenas[i].second);
  }
  context.synchronize();
}

void Step::keep_state(int64_t max_bytes) {
  const auto arenas = tape_->persistent_memory();
  if (kept_.empty()) {
    int64_t needed = 0;
    for (const auto& [memory, bytes] : arenas) needed += bytes;
    if (needed > std::min(max_bytes, available_bytes(tape_->context()) / 2)) return;
    for (const auto& [memory, bytes] : arenas) kept_.emplace_back(tape_->context(), bytes, "kept state");
  }
  copy_persistent(false);
  kept_steps_ = tape_->steps();
}

Check Step::replay_kept(int steps, uint64_t seed, double elements_s) {
  Check check = compared_with_kept(steps, seed, elements_s);
  if (!kept_.empty()) return check;
  check.coverage = "sampled";
  check.sampled_reason += check.sampled_reason.empty() ? "" : "; ";
  check.sampled_reason +=
      "there is no memory to keep the state before the timed steps, so what they left is not compared with the same "
      "steps run op by op";
  return check;
}

Check Step::compared_with_kept(int steps, uint64_t seed, double elements_s) {
  const bool inference = pass_ == Pass::inference;
  std::vector<Result> answers;
  if (inference) answers = results(tape_->outputs());
  if (kept_.empty()) {  // the outputs can still be compared
    const Check check = inference ? repeated({}, answers) : Check{};
    return check.passed() ? replay(seed, elements_s) : check;
  }
  tape_->context().synchronize();
  const std::vector<Result> timed = results(persistent());

  const auto run_again = [&](int count) {
    copy_persistent(true);
    tape_->continue_after(kept_steps_);
    tape_->context().enter([&] {
      for (int i = 0; i < count; ++i) tape_->run();
    });
  };
  if (steps % 2 == 0) run_again(1);  // so that each node's next run is an odd number of runs behind its timed one
  run_again(steps - 1);
  Check check = compared_ ? run_poisoned(*tape_) : duet::replay(*tape_, seed, elements_s);
  if (!check.passed()) return check;
  compared_ = true;
  size_t i = 0;
  for (const auto& [name, var] : persistent())
    if (!is_result(var, timed[i++])) {
      check.max_error_ratio = INFINITY;
      check.failure = name + " as the timed step left it is not that of the same step run op by op";
      return check;
    }
  return inference ? repeated(check, answers) : check;
}

// An inference leaves what the one before it left: a node that did nothing would not be seen. So it is run twice more,
// each time over poisoned temporaries, and must give the outputs that the timed one gave.
Check Step::repeated(Check check, const std::vector<Result>& answers) {
  Context& context = tape_->context();
  for (int i = 0; i < 2; ++i) {
    if (const auto [memory, bytes] = tape_->memory().back(); bytes > 0) context.fill_bytes(memory, 0xFF, bytes);
    context.enter([&] { run(); });
    context.synchronize();
    for (size_t o = 0; o < tape_->outputs().size(); ++o) {
      const auto& [name, var] = tape_->outputs()[o];
      if (is_result(var, answers[o])) continue;
      check.max_error_ratio = INFINITY;
      check.failure = name + " of another run on the same inputs is not that of the timed one";
      return check;
    }
  }
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
  for (const auto& [name, var] : tape_->outputs())
    if (name == "loss" || name.ends_with(".loss") || pass_ == Pass::inference)
      list.emplace_back(tape_->tensor(var).data, tape_->bytes(var));
  return list;
}

}  // namespace duet
