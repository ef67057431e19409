// SPDX-License-Identifier: Apache-2.0
// Checks a step as it runs, op by op, in the very buffers that were timed: see Step::replay in models/step.h.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/checksum.h"
#include "core/coverage.h"
#include "core/machine.h"
#include "models/step.h"

namespace duet {
namespace {

// Work of the reference: of all nodes of a step together, if each gets between these. Steps of many nodes have many
// that are alike.
constexpr double kStepWork = 4e9, kMinNodeWork = 2e7, kMaxNodeWork = 2e8;

// What the whole reference of a node may take, where there is another way to compare every element, and where there is
// none or two implementations differ.
constexpr double kWholeReference_s = 0.01, kOnlyReference_s = 2;
// Of the time for all nodes, the first ones have this share, and each further one its part of the rest.
constexpr double kShareAtFirst = 0.25;
constexpr double kMaxSlowness = 4;  // wall time over CPU time of all threads, from which on the wall time counts

// What a tensor held, in a few bytes: copies of all tensors would take as much memory as the step itself.
struct Content {
  int64_t bytes = 0;
  uint64_t checksum = 0;
  bool operator==(const Content&) const = default;
};

Check failed(std::string reason) {
  Check check;
  check.failure = std::move(reason);
  return check;
}

// The name of a parameter, state or output that is not finite; "" where all are. The reference computes NaN from NaN,
// so a comparison alone would accept a step that has lost its numbers.
std::string not_finite(const Tape& tape) {
  for (const auto* list : {&tape.named_parameters(), &tape.states(), &tape.outputs()})
    for (const auto& [name, var] : *list)
      if (!tape.finite(var)) return name + " is not finite";
  return "";
}

// What is wrong after a step, whatever its nodes computed; "" for nothing.
std::string state_failure(const Tape& tape) {
  return tape.guards_intact() ? not_finite(tape) : "memory around an arena was overwritten";
}

// Sets a node's outputs to 0xFF, except where one is an input as well.
void poison_outputs(const Tape& tape, const Tape::Node& node) {
  const std::vector<TensorSpec> specs = node.problem.tensors();
  for (size_t s = 0; s < specs.size(); ++s) {
    const Tensor t = tape.tensor(node.slots[s]);
    const bool read = std::any_of(specs.begin(), specs.end(), [&, i = size_t{0}](const TensorSpec& other) mutable {
      const Var var = node.slots[i++];
      return other.role != Role::out && tape.tensor(var).data == t.data;
    });
    if (!read && specs[s].role == Role::out) tape.context().fill_bytes(t.data, 0xFF, tape.bytes(node.slots[s]));
  }
}

class Replay {
 public:
  Replay(Tape& tape, uint64_t seed, double elements_s, std::function<void(size_t)> run)
      : tape_(tape),
        seed_(seed),
        elements_s_(elements_s),
        run_(std::move(run)),
        node_work_(std::clamp(kStepWork / static_cast<double>(std::max<size_t>(1, tape.nodes().size())), kMinNodeWork,
                              kMaxNodeWork)) {}

  // Runs one node and compares its outputs with the reference.
  Check check_node(size_t index) {
    const Tape::Node& node = tape_.nodes()[index];
    const std::vector<TensorSpec> specs = node.problem.tensors();
    HostTensors inputs(specs), got(specs);
    for (size_t s = 0; s < specs.size(); ++s) {
      if (specs[s].role == Role::out) continue;
      if (tape_.tensor(node.slots[s]).dtype != specs[s].dtype)
        throw Error("replay checks implementations, not the reference");
      if (!unchanged(node.slots[s], download(node.slots[s], inputs, s)))
        return failed(std::string(specs[s].name) +
                      " is no longer what was written: overlapped, or overwritten out of bounds");
    }
    poison_outputs(tape_, node);
    tape_.context().enter([&] { run_(index); });
    tape_.context().synchronize();
    for (size_t s = 0; s < specs.size(); ++s)
      if (specs[s].role != Role::in) record(node.slots[s], download(node.slots[s], got, s));
    const Expected expected = Expected::sampled(node.problem, inputs, seed_, node_work_);
    Check check = compare(node.problem, expected, got, false);
    if (check.passed() && elements_s_ > 0)
      check = joined(check, compare_elements(index, inputs, expected, expected.reference_s(threads_), got));
    return check;
  }

  // How the elements of all nodes were compared.
  void describe(Check& all) const {
    if (elements_s_ == 0) {
      all.sampled_reason = "each op of a step is compared with the reference on sampled slices";
    } else if (sampled_.empty()) {
      all.coverage = "op by op";
    } else {
      all.sampled_reason = fmt::format("of {} of the {} ops sampled slices alone are compared, such as {}",
                                       sampled_nodes_, tape_.nodes().size(), sampled_);
    }
  }

 private:
  Check compare_elements(size_t index, const HostTensors& inputs, const Expected& expected, double expected_s,
                         const HostTensors& got) {
    const Tape::Node& node = tape_.nodes()[index];
    Check check;
    if (expected.slices() == node.problem.slices()) {
      check.coverage = "reference";
      return check;
    }
    const double done = static_cast<double>(index) / static_cast<double>(tape_.nodes().size());
    const double may_take_s = elements_s_ * (kShareAtFirst + (1 - kShareAtFirst) * done);
    if (spent_s_ > may_take_s) {
      check.sampled_reason = fmt::format("{:.2g} s are spent on the ops before", spent_s_);
    } else if (spent_s_ > may_take_s / 2 && seen_.contains(node.job())) {
      check.sampled_reason = fmt::format("one like it was compared, and {:.2g} s are spent", spent_s_);
    } else {
      const auto start = std::chrono::steady_clock::now();
      const double begin_s = CpuSnapshot::now().own_s;
      Coverage coverage(node.problem, inputs, expected, expected_s, kWholeReference_s, kOnlyReference_s, seed_,
                        kOnlyReference_s, Coverage::Undecided::is_sampled);
      check = coverage.compare(node.implementation, got);
      if (check.coverage != "sampled") seen_.insert(node.job());
      const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      spent_s_ += std::max((CpuSnapshot::now().own_s - begin_s) / threads_, wall_s / kMaxSlowness);
    }
    if (check.coverage == "sampled") {
      if (sampled_.empty()) sampled_ = node.job() + ": " + check.sampled_reason;
      ++sampled_nodes_;
    }
    return check;
  }

  // Downloads a tensor into a slot of `host`.
  Content download(Var var, HostTensors& host, size_t slot) const {
    host.reserve(slot);
    const int64_t bytes = tape_.bytes(var);
    tape_.context().download(host.data(slot), tape_.tensor(var).data, bytes);
    return {bytes, parallel_checksum(host.data(slot), bytes)};
  }

  // Whether a tensor still holds what it held when it was last written or read; true when it is met for the first time.
  bool unchanged(Var var, const Content& now) {
    const auto [at, fresh] = known_.try_emplace(tape_.tensor(var).data, now);
    return fresh || at->second.bytes != now.bytes || at->second == now;
  }

  // Records what a node has written. A slice of an arena is another tensor than the arena itself, so entries that
  // overlap the written bytes are dropped.
  void record(Var var, const Content& now) {
    const auto* begin = static_cast<const char*>(tape_.tensor(var).data);
    const auto* end = begin + now.bytes;
    std::erase_if(known_, [&](const auto& entry) {
      const auto* first = static_cast<const char*>(entry.first);
      return first < end && begin < first + entry.second.bytes;
    });
    known_[begin] = now;
  }

  Tape& tape_;
  uint64_t seed_;
  double elements_s_;
  std::function<void(size_t)> run_;
  double node_work_;
  int threads_ = usable_threads();
  double spent_s_ = 0;                    // on comparing every element
  std::set<std::string> seen_;            // jobs with every element compared
  int64_t sampled_nodes_ = 0;             // without
  std::string sampled_;                   // the first of them, with its reason
  std::map<const void*, Content> known_;  // by address: what the last node to write or read there left
};

}  // namespace

Check replay(Tape& tape, uint64_t seed, double elements_s, std::function<void(size_t)> run) {
  if (!run) run = [&](size_t node) { tape.run_node(node); };
  Check all;
  tape.context().synchronize();
  if (tape.steps() > 0) all.failure = not_finite(tape);  // what earlier steps left
  if (!all.passed()) return all;
  tape.begin_step();
  tape.context().synchronize();
  Replay checker(tape, seed, elements_s, std::move(run));
  for (size_t i = 0; i < tape.nodes().size(); ++i) {
    const Check check = checker.check_node(i);
    all.max_error_ratio = std::max(all.max_error_ratio, check.max_error_ratio);
    all.slices += check.slices;
    all.elements += check.elements;
    if (!check.passed()) {
      all.failure = tape.nodes()[i].job() + ": " + check.failure;
      return all;
    }
  }
  all.failure = state_failure(tape);
  if (all.passed()) checker.describe(all);
  return all;
}

Check run_poisoned(Tape& tape) {
  tape.begin_step();
  for (size_t i = 0; i < tape.nodes().size(); ++i) {
    poison_outputs(tape, tape.nodes()[i]);
    tape.context().enter([&] { tape.run_node(i); });
  }
  tape.context().synchronize();
  Check check;
  check.sampled_reason = "ops are compared in the first series of a job";
  check.failure = state_failure(tape);
  return check;
}

}  // namespace duet
