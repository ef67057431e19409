// Judging a step as it runs, primitive by primitive, in the very buffers that were timed.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "models/step.h"

namespace duet {
namespace {

using Image = std::vector<unsigned char>;

Check failed(std::string reason) {
  Check check;
  check.failure = std::move(reason);
  return check;
}

// A NaN would be expected wherever another one is read: what lasts, and what a step tells, must be numbers.
std::string not_finite(const Tape& tape) {
  for (const auto* list : {&tape.named_parameters(), &tape.states(), &tape.outputs()})
    for (const auto& [name, var] : *list) {
      const std::vector<double> values = tape.download(var);
      if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
        return name + " is not finite";
    }
  return "";
}

struct Judge {
  Tape& tape;
  uint64_t seed;
  std::function<void(size_t)> run;
  std::map<const void*, Image> known;  // by address: what the last primitive to write there left

  Image image(Var var) const {
    Image bytes(static_cast<size_t>(tape.bytes(var)));
    tape.context().download(bytes.data(), tape.tensor(var).data, tape.bytes(var));
    return bytes;
  }

  // What a tensor held when it was last written or read must be what is read now. Slices of an arena are other tensors
  // than the arena, so whatever overlaps a fresh write is forgotten.
  bool unchanged(Var var, const Image& now) {
    const auto [at, fresh] = known.try_emplace(tape.tensor(var).data, now);
    return fresh || at->second.size() != now.size() || at->second == now;
  }
  void remember(Var var, const Image& now) {
    const auto* begin = static_cast<const char*>(tape.tensor(var).data);
    const auto* end = begin + now.size();
    std::erase_if(known, [&](const auto& entry) {
      const auto* first = static_cast<const char*>(entry.first);
      return first < end && begin < first + entry.second.size();
    });
    known[begin] = now;
  }

  Check part(size_t index) {
    const Tape::Part& part = tape.parts()[index];
    const std::vector<TensorSpec> specs = part.problem.tensors();
    HostTensors inputs(specs), got(specs);
    for (size_t s = 0; s < specs.size(); ++s) {
      if (specs[s].role == Role::out) continue;
      const Image now = image(part.slots[s]);
      if (tape.tensor(part.slots[s]).dtype != specs[s].dtype)
        throw Error("replay judges implementations, not the oracle");
      if (!unchanged(part.slots[s], now))
        return failed(std::string(specs[s].name) +
                      " is no longer what was written: overlapped, or overwritten out of bounds");
      inputs.allocate(s);
      std::memcpy(inputs.data(s), now.data(), now.size());
    }
    for (size_t s = 0; s < specs.size(); ++s) {
      const Tensor t = tape.tensor(part.slots[s]);
      const bool read = std::any_of(specs.begin(), specs.end(), [&, i = size_t{0}](const TensorSpec& other) mutable {
        const Var var = part.slots[i++];
        return other.role != Role::out && tape.tensor(var).data == t.data;
      });
      if (!read && specs[s].role == Role::out) tape.context().fill_bytes(t.data, 0xFF, tape.bytes(part.slots[s]));
    }
    tape.context().enter([&] { run(index); });
    tape.context().synchronize();
    for (size_t s = 0; s < specs.size(); ++s) {
      if (specs[s].role == Role::in) continue;
      const Image now = image(part.slots[s]);
      got.allocate(s);
      std::memcpy(got.data(s), now.data(), now.size());
      remember(part.slots[s], now);
    }
    return compare(part.problem, Expected::sampled(part.problem, inputs, seed), got, false);
  }
};

}  // namespace

Check replay(Tape& tape, uint64_t seed, std::function<void(size_t)> run) {
  if (!run) run = [&](size_t part) { tape.run_part(part); };
  Check all;
  tape.context().synchronize();
  if (tape.steps() > 0) all.failure = not_finite(tape);  // what the steps before left
  if (!all.passed()) return all;
  tape.begin_step();
  tape.context().synchronize();
  Judge judge{tape, seed, std::move(run), {}};
  for (size_t i = 0; i < tape.parts().size(); ++i) {
    const Check check = judge.part(i);
    all.max_error_ratio = std::max(all.max_error_ratio, check.max_error_ratio);
    all.slices += check.slices, all.elements += check.elements;
    if (!check.passed()) {
      all.failure = tape.parts()[i].job() + ": " + check.failure;
      return all;
    }
  }
  all.failure = not_finite(tape);
  if (!tape.guards_intact()) all.failure = "memory around an arena was overwritten";
  return all;
}

}  // namespace duet
