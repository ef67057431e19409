// SPDX-License-Identifier: Apache-2.0
// Judging a step as it runs, op by op, in the very buffers that were timed.
#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "models/step.h"

namespace duet {
namespace {

// What a tensor held, in a few bytes: the images of all tensors would take as much memory as the step itself. Each step of
// a chain is a bijection of what came before and of the word, so that no single change goes unseen; four chains, since
// one would wait for its multiplication.
struct Print {
  int64_t bytes = 0;
  uint64_t hash = 0;
  bool operator==(const Print&) const = default;
};
Print print_of(const void* data, int64_t bytes) {
  constexpr int64_t kChains = 4, kWord = sizeof(uint64_t);
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // odd
  const auto step = [](uint64_t chain, uint64_t word) { return std::rotl((chain ^ word) * kFactor, 31); };
  uint64_t chains[kChains] = {}, word = 0;
  const auto* from = static_cast<const unsigned char*>(data);
  int64_t at = 0;
  for (; at + kChains * kWord <= bytes; at += kChains * kWord)
    for (int64_t c = 0; c < kChains; ++c) {
      std::memcpy(&word, from + at + c * kWord, kWord);
      chains[c] = step(chains[c], word);
    }
  for (; at < bytes; at += kWord) {
    word = 0;
    std::memcpy(&word, from + at, static_cast<size_t>(std::min(kWord, bytes - at)));
    chains[0] = step(chains[0], word);
  }
  Print print{bytes, 0};
  for (const uint64_t chain : chains) print.hash = step(print.hash, chain);
  return print;
}

Check failed(std::string reason) {
  Check check;
  check.failure = std::move(reason);
  return check;
}

// A NaN would be expected wherever another one is read: what lasts, and what a step tells, must be numbers.
std::string not_finite(const Tape& tape) {
  for (const auto* list : {&tape.named_parameters(), &tape.states(), &tape.outputs()})
    for (const auto& [name, var] : *list)
      if (!tape.finite(var)) return name + " is not finite";
  return "";
}

struct Judge {
  Tape& tape;
  uint64_t seed;
  std::function<void(size_t)> run;
  std::map<const void*, Print> known;  // by address: what the last op to write there left

  // Downloads a tensor into a slot of `host`.
  Print take(Var var, HostTensors& host, size_t slot) const {
    host.allocate(slot);
    tape.context().download(host.data(slot), tape.tensor(var).data, tape.bytes(var));
    return print_of(host.data(slot), tape.bytes(var));
  }

  // What a tensor held when it was last written or read must be what is read now. Slices of an arena are other tensors
  // than the arena, so whatever overlaps a fresh write is forgotten.
  bool unchanged(Var var, const Print& now) {
    const auto [at, fresh] = known.try_emplace(tape.tensor(var).data, now);
    return fresh || at->second.bytes != now.bytes || at->second == now;
  }
  void remember(Var var, const Print& now) {
    const auto* begin = static_cast<const char*>(tape.tensor(var).data);
    const auto* end = begin + now.bytes;
    std::erase_if(known, [&](const auto& entry) {
      const auto* first = static_cast<const char*>(entry.first);
      return first < end && begin < first + entry.second.bytes;
    });
    known[begin] = now;
  }

  Check node(size_t index) {
    const Tape::Node& node = tape.nodes()[index];
    const std::vector<TensorSpec> specs = node.problem.tensors();
    HostTensors inputs(specs), got(specs);
    for (size_t s = 0; s < specs.size(); ++s) {
      if (specs[s].role == Role::out) continue;
      if (tape.tensor(node.slots[s]).dtype != specs[s].dtype)
        throw Error("replay judges implementations, not the reference");
      if (!unchanged(node.slots[s], take(node.slots[s], inputs, s)))
        return failed(std::string(specs[s].name) +
                      " is no longer what was written: overlapped, or overwritten out of bounds");
    }
    for (size_t s = 0; s < specs.size(); ++s) {
      const Tensor t = tape.tensor(node.slots[s]);
      const bool read = std::any_of(specs.begin(), specs.end(), [&, i = size_t{0}](const TensorSpec& other) mutable {
        const Var var = node.slots[i++];
        return other.role != Role::out && tape.tensor(var).data == t.data;
      });
      if (!read && specs[s].role == Role::out) tape.context().fill_bytes(t.data, 0xFF, tape.bytes(node.slots[s]));
    }
    tape.context().enter([&] { run(index); });
    tape.context().synchronize();
    for (size_t s = 0; s < specs.size(); ++s) {
      if (specs[s].role == Role::in) continue;
      remember(node.slots[s], take(node.slots[s], got, s));
    }
    return compare(node.problem, Expected::sampled(node.problem, inputs, seed), got, false);
  }
};

}  // namespace

Check replay(Tape& tape, uint64_t seed, std::function<void(size_t)> run) {
  if (!run) run = [&](size_t node) { tape.run_node(node); };
  Check all;
  tape.context().synchronize();
  if (tape.steps() > 0) all.failure = not_finite(tape);  // what the steps before left
  if (!all.passed()) return all;
  tape.begin_step();
  tape.context().synchronize();
  Judge judge{tape, seed, std::move(run), {}};
  for (size_t i = 0; i < tape.nodes().size(); ++i) {
    const Check check = judge.node(i);
    all.max_error_ratio = std::max(all.max_error_ratio, check.max_error_ratio);
    all.slices += check.slices;
    all.elements += check.elements;
    if (!check.passed()) {
      all.failure = tape.nodes()[i].job() + ": " + check.failure;
      return all;
    }
  }
  all.failure = not_finite(tape);
  if (!tape.guards_intact()) all.failure = "memory around an arena was overwritten";
  return all;
}

}  // namespace duet
