// SPDX-License-Identifier: Apache-2.0
#include "tests/must_fail/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/fill.h"
#include "core/philox.h"
#include "core/session.h"
#include "tests/must_fail/lazy_inputs.h"

namespace duet::must_fail {
namespace {

constexpr uint64_t kSeed = 1;       // of the inputs
constexpr uint64_t kOtherSeed = 2;  // of the run before
// Operations of the reference. What refuses a fault with few compared elements refuses it with more of its kind: only
// where few do not, more are compared, as many as bench_all samples. Of a case whose slices are so much work that it
// samples no more than few, one slice more is: bench_all compares every element of such a case besides
// (core/coverage.h).
constexpr double kFewSlicesFlops = 1e7, kMoreSlicesFlops = 2e8, kMaxSlicesFlops = 1e15;

// The compared elements of one output, in order of their index, as a correct implementation leaves them.
struct Output {
  size_t slot;
  TensorSpec spec;
  Tolerance tolerance;
  std::vector<Claim> claims;
  std::vector<double> correct, previous, before;  // before the call: inout tensors
  int less_bits;                                  // of the significand after less_precision
};

double rounded_to_bits(double value, int bits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::ldexp(1.0, std::ilogb(value) - bits + 1);
  return std::nearbyint(value / unit) * unit;
}

// Moves the values of one row, as the last axis says, on by one: of the row in which most values change, and of those
// the one that changes most; of others the values may be next to 0. Where no value does, because rows have one element
// or equal ones, the compared elements move on by a whole row.
void shuffle(const Output& o, std::vector<double>& values) {
  const auto cols = static_cast<size_t>(o.spec.shape.empty() ? 1 : std::max<int64_t>(1, o.spec.shape.back()));
  const auto row_of = [&](size_t i) { return o.claims[i].index / static_cast<int64_t>(cols); };
  size_t first = 0, last = 0, max_changed = 0;
  double max_change = 0;
  for (size_t begin = 0; begin < values.size();) {
    size_t end = begin + 1, changed = 0;
    double change = 0;
    for (; end < values.size() && row_of(end) == row_of(begin); ++end) {
      changed += values[end] != values[end - 1];
      change = std::max(change, std::abs(values[end] - values[end - 1]));  // no comparison holds for a NaN
    }
    if (changed > max_changed || (changed == max_changed && change > max_change)) {
      max_changed = changed;
      max_change = change;
      first = begin;
      last = end;
    }
    begin = end;
  }
  size_t by = 1;
  if (max_changed == 0) {
    last = values.size();
    by = last > cols ? cols : 1;
  }
  const auto at = [&](size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  std::rotate(at(first), at(last - by), at(last));
}

// The size of a typical finite element; 1 where all are 0.
double typical(const std::vector<double>& values) {
  double sum = 0;
  int64_t n = 0;
  for (const double v : values)
    if (std::isfinite(v)) {
      sum += v * v;
      ++n;
    }
  return sum > 0 ? std::sqrt(sum / static_cast<double>(n)) : 1;
}

// The output's values with the fault; nothing where the output cannot have it.
std::optional<std::vector<double>> plant(Fault fault, const Output& o) {
  std::vector<double> values = o.correct;
  const bool is_whole = !is_float(o.spec.dtype);
  switch (fault) {
    case Fault::zeros:
      std::fill(values.begin(), values.end(), 0.0);
      break;
    case Fault::previous:
      if (o.previous.size() != values.size()) return std::nullopt;
      values = o.previous;
      break;
    case Fault::unchanged:
      if (o.spec.role != Role::inout) return std::nullopt;
      values = o.before;
      break;
    case Fault::shuffled:
      if (o.spec.elements() == 1) return std::nullopt;
      shuffle(o, values);
      break;
    case Fault::less_precision: {
      if (is_whole) return std::nullopt;
      const int bits = o.less_bits;
      for (size_t i = 0; i < values.size(); ++i) {
        const double noise = philox_bits(i, kSeed) * 0x1p-31 - 1;  // [-1, 1): the error of the first rounding in u
        values[i] = rounded_to_bits(values[i] * (1 + noise * std::ldexp(1.0, -bits)), bits);
      }
      break;
    }
    case Fault::wrong_last: {
      const double error = is_whole ? 1 : typical(values);
      values.back() = std::isfinite(values.back()) ? values.back() + (values.back() < 0 ? -error : error) : 0;
      break;
    }
  }
  for (double& v : values) v = round_to(o.spec.dtype, v);
  return values;
}

// Whether factors are rounded to TF32, which has the significand of f16: the next lower precision is then bf16.
bool uses_tf32(const Problem& problem) {
  for (const Attribute& a : problem.attributes())
    if (a.name == "math") return a.text() == "tf32";
  return false;
}

// The elements of the compared outputs, by slot.
std::vector<Output> outputs_of(const Problem& problem, const Expected& expected, const std::vector<TensorSpec>& specs,
                               const std::vector<Inputs::Values>& inputs) {
  std::vector<Output> outputs;
  const bool tf32 = uses_tf32(problem);
  for (size_t slot = 0; slot < specs.size(); ++slot) {
    const TensorSpec& spec = specs[slot];
    if (spec.role == Role::in || spec.elements() == 0) continue;
    const int bits = lower_precision_bits(tf32 && spec.dtype == DType::f32 ? DType::f16 : spec.dtype);
    outputs.push_back({slot, spec, problem.tolerance(static_cast<int>(slot)), {}, {}, {}, {}, bits});
  }
  for (const Claim& c : expected.claims())
    for (Output& o : outputs)
      if (o.slot == static_cast<size_t>(c.slot)) o.claims.push_back(c);
  for (Output& o : outputs) {
    std::stable_sort(o.claims.begin(), o.claims.end(),
                     [](const Claim& a, const Claim& b) { return a.index < b.index; });
    for (const Claim& c : o.claims) {
      o.correct.push_back(round_to(o.spec.dtype, c.want));
      if (o.spec.role == Role::inout) o.before.push_back(inputs[o.slot][c.index]);
    }
  }
  return outputs;
}

std::string shown(const Output& o, const std::vector<double>& values) {
  double max = 0, max_bound = 0, max_want = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    max = std::max(max, error_ratio(o.claims[i], o.spec.dtype, o.tolerance, values[i]));
    max_bound = std::max(max_bound, bound_of(o.tolerance, o.claims[i]));
    max_want = std::max(max_want, std::abs(o.claims[i].want));
  }
  return fmt::format("{:.3g} of its bound; of {} elements, up to {:.3g}, with bounds up to {:.3g}", max, values.size(),
                     max_want, max_bound);
}

bool refused(const Output& o, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!(error_ratio(o.claims[i], o.spec.dtype, o.tolerance, values[i]) <= 1)) return true;
  return false;
}

}  // namespace

const char* name_of(Fault fault) {
  constexpr const char* kNames[] = {"zeros", "previous", "unchanged", "shuffled", "less_precision", "wrong_last"};
  return kNames[static_cast<size_t>(fault)];
}

int lower_precision_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 24;
    case DType::f32:
      return 11;
    case DType::f16:
      return 8;
    default:
      return 5;
  }
}

namespace {
std::vector<Finding> examine_with(const Problem& problem, double work_flops, int64_t& faults) {
  const auto drawn_with = [&](uint64_t seed) {
    const LazyInputs inputs(problem, seed);
    const Expected expected = Expected::sampled(problem, inputs.specs(), inputs.values(), kSeed, work_flops);
    return outputs_of(problem, expected, inputs.specs(), inputs.values());
  };
  std::vector<Output> outputs = drawn_with(kSeed);
  const std::vector<Output> others = drawn_with(kOtherSeed);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].previous = others[i].correct;
  std::vector<Finding> findings;
  for (const Output& o : outputs) {
    if (o.claims.empty() || o.claims.back().index != o.spec.elements() - 1)
      findings.push_back({o.spec.name, "unseen_last", fmt::format("{} elements compared", o.claims.size())});
    if (o.claims.empty()) continue;
    if (refused(o, o.correct)) findings.push_back({o.spec.name, "correct", shown(o, o.correct)});
    for (const Fault fault : kFaults) {
      const auto values = plant(fault, o);
      if (!values) continue;
      ++faults;
      if (!refused(o, *values)) findings.push_back({o.spec.name, name_of(fault), shown(o, *values)});
    }
  }
  return findings;
}
}  // namespace

std::vector<Finding> examine(const Problem& problem, int64_t& faults) {
  int64_t tried = 0;
  std::vector<Finding> findings = examine_with(problem, kFewSlicesFlops, tried);
  const auto slices = [&](double work_flops) { return Expected::sampled_slices(problem, work_flops); };
  const int64_t few = slices(kFewSlicesFlops);
  if (!findings.empty() && few < std::min(problem.slices(), slices(kMaxSlicesFlops))) {
    double more_flops = kMoreSlicesFlops;
    while (slices(more_flops) == few) more_flops *= 1.1;
    tried = 0;
    findings = examine_with(problem, more_flops, tried);
  }
  faults += tried;
  return findings;
}

std::vector<Finding> examine_implementation(const Problem& problem, const Implementation& implementation,
                                            Context& context, int64_t& faults) {
  const HostTensors inputs = draw_inputs(problem, FillMode::values, kSeed);
  const Expected expected = Expected::sampled(problem, inputs, kSeed);
  Session session(problem, implementation, context, inputs);
  std::vector<Finding> findings;
  if (!session.supported()) return findings;
  context.enter([&] { session.run(); });
  if (const Check check = session.check(expected, false); !check.passed()) return {{"all", "correct", check.failure}};
  const HostTensors correct = session.download();
  for (const Output& o : outputs_of(problem, expected, inputs.specs(), inputs.values()))
    for (const Fault fault : {Fault::zeros, Fault::shuffled, Fault::less_precision, Fault::wrong_last}) {
      const auto values = plant(fault, o);
      if (!values) continue;
      HostTensors got = correct;
      for (size_t i = 0; i < values->size(); ++i)
        store_double(got.data(o.slot), o.spec.dtype, o.claims[i].index, (*values)[i]);
      ++faults;
      if (compare(problem, expected, got, false).passed())
        findings.push_back({o.spec.name, name_of(fault), shown(o, *values)});
    }
  return findings;
}

}  // namespace duet::must_fail
