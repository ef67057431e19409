#include "models/step.h"

#include <chrono>
#include <map>

namespace duet {
namespace {
// Timing repeats a step some 10^5 times on one batch. At a rate that learns, the model would soon know the batch by
// heart: gradients vanish, logits leave the range that the contracts' tolerances are derived for. At this rate the
// parameters stay near where they began, and an update is still 50 roundings of a parameter, so that a replay sees it.
constexpr float kTimedRate = 1e-6f;
}  // namespace

std::string step_job_name(const Model& model, const std::string& side) {
  return "step/" + model.name() + "/" + side + "/" + model.label();
}

Step::Step(const Model& model, Context& context, Tape::Preferences preferences, uint64_t seed)
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
  for (const Tape::Part& p : tape_->parts())
    parts_.push_back({p.job(), p.implementation, tape_->phases()[p.phase], p.problem.flops(), p.problem.bytes()});
  tape_->fill_inputs(seed);
  tape_->upload(tape_->find("lr"), std::span(&kTimedRate, 1));
}

double Step::flops() const {
  double sum = 0;
  for (const Part& p : parts_) sum += p.flops;
  return sum;
}
int64_t Step::bytes() const {
  int64_t sum = 0;
  for (const Part& p : parts_) sum += p.bytes;
  return sum;
}

std::vector<std::pair<std::string, std::string>> Step::implementations() const {
  std::map<std::string, std::string> chosen;
  for (const Tape::Part& p : tape_->parts()) {
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

Check Step::replay(uint64_t seed) { return duet::replay(*tape_, seed); }

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
