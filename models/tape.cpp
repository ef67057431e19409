// SPDX-License-Identifier: Apache-2.0
// The part of Tape that declares tensors and adds ops, before plan().
#include "models/tape.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace duet {
namespace {
constexpr int64_t kSliceAlign = 16;
constexpr const char* kReference = "reference";
}  // namespace

Tape::Preferences Tape::preferences_for(Device device) {
  if (device == Device::cpu) return {"cpu.tuned", "cpu.openblas"};
  return {"cuda.cublaslt", "cuda.cublas", "cuda.cudnn", "cuda.tuned", "cuda.naive"};
}

Tape::Tape(Context& context, Preferences preferences, uint64_t seed)
    : context_(&context), preferences_(std::move(preferences)), seed_(seed) {
  reference_ = preferences_ == Preferences{kReference};
  const std::string device = name_of(context.device());
  if (reference_ && context.device() != Device::cpu)
    throw Error("the reference runs on the CPU only, not on {}", device);
  for (const std::string& name : preferences_)
    if (!reference_ && name.substr(0, name.find('.')) != device)
      throw Error(
          "implementation preference '{}': only {}.<variant> can run on this device, or reference alone on a CPU", name,
          device);
}

void Tape::require_planned(bool planned, const char* what) const {
  if (planned != planned_) throw Error("Tape::{} must be called {} plan()", what, planned ? "after" : "before");
}

size_t Tape::index(Var var) const {
  if (var.id < 0 || static_cast<size_t>(var.id) >= values_.size())
    throw Error("tensor {} is not one of the {} on this tape", var.id, values_.size());
  return static_cast<size_t>(var.id);
}

int64_t Tape::elements(const Value& v) const {
  return TensorSpec{v.name.c_str(), Role::in, v.dtype, v.shape, {}}.elements();
}
int64_t Tape::stored_bytes(const Value& v) const { return elements(v) * size_of(stored(v.dtype)); }

Var Tape::declare(Value value) {
  require_planned(false, "add");
  if (value.home == Home::kept && value.parent < 0) keep(value);
  values_.push_back(std::move(value));
  return {static_cast<int>(values_.size()) - 1};
}

void Tape::keep(Value& value) {
  value.offset = kept_bytes_;
  kept_bytes_ += ceil_div(stored_bytes(value), kAlign) * kAlign;
}

Var Tape::declare_named(std::vector<std::pair<std::string, Var>>& list, Value value) {
  for (const auto* names : {&named_inputs_, &named_parameters_, &named_states_, &named_outputs_})
    for (const auto& [name, var] : *names)
      if (name == value.name) throw Error("the tape has two tensors named '{}'", name);
  const std::string name = value.name;
  list.emplace_back(name, declare(std::move(value)));
  return list.back().second;
}

Var Tape::input(const std::string& name, DType dtype, Shape shape, Fill fill) {
  return declare_named(named_inputs_, {name, dtype, std::move(shape), Home::kept, fill});
}

Var Tape::drawn_input(const std::string& name, DType dtype, Shape shape, Draw draw) {
  const Var var = input(name, dtype, std::move(shape));
  values_[index(var)].drawn = std::move(draw);
  return var;
}

Var Tape::state(const std::string& name, Shape shape, double value, DType dtype) {
  return state(name, std::move(shape), Fill::constant(value), dtype);
}
Var Tape::state(const std::string& name, Shape shape, Fill init, DType dtype) {
  return declare_named(named_states_, {name, dtype, std::move(shape), Home::kept, init, true});
}

Var Tape::constant(const std::string& name, Shape shape, double value, DType dtype) {
  return declare({name, dtype, std::move(shape), Home::kept, Fill::constant(value), true});
}

Var Tape::constant(const std::string& name, Shape shape, Draw draw, DType dtype) {
  const Var var = constant(name, std::move(shape), 0, dtype);
  values_[index(var)].drawn = std::move(draw);
  return var;
}

Var Tape::slice(Var parent, int64_t first_element, Shape shape) {
  const Value& whole = values_[index(parent)];
  const int64_t count = elements({.name = whole.name, .dtype = whole.dtype, .shape = shape, .home = whole.home});
  if (first_element < 0 || first_element > elements(whole) - count)
    throw Error("slice of {}: elements {} to {} are not within its {}", whole.name, first_element,
                first_element + count, elements(whole));
  if (first_element * size_of(whole.dtype) % kSliceAlign != 0)
    throw Error("slice of {}: element {} of {} does not begin at a multiple of {} bytes", whole.name, first_element,
                name_of(whole.dtype), kSliceAlign);
  Value view{.name = fmt::format("{}[{}:{}]", whole.name, first_element, first_element + count),
             .dtype = whole.dtype,
             .shape = std::move(shape),
             .home = whole.home};
  view.parent = whole.parent < 0 ? static_cast<int>(index(parent)) : whole.parent;
  view.offset = (whole.parent < 0 ? 0 : whole.offset) + first_element * size_of(stored(whole.dtype));
  return declare(std::move(view));
}

Var Tape::pieces(const std::string& name, DType dtype, Shape shape) {
  Value value{.name = name, .dtype = dtype, .shape = std::move(shape), .home = Home::temporary};
  value.missing = {{0, elements(value)}};
  return declare(std::move(value));
}

// Records that the next node reads or writes a temporary, or a slice of one: which elements are written.
void Tape::use(Value& value, Role role, const std::string& job) {
  if (value.home != Home::temporary) return;
  Value& whole = root(value);
  const int64_t size = size_of(stored(value.dtype)), first = value.parent < 0 ? 0 : value.offset / size;
  const int64_t last = first + elements(value);
  if (role != Role::out) {
    if (!whole.written) throw Error("{}: {} was never written", job, value.name);
    for (const auto& [begin, end] : whole.missing)
      if (begin < last && first < end)
        throw Error("{}: elements {} to {} of {} were never written", job, std::max(begin, first), std::min(end, last),
                    whole.name);
  } else {
    std::vector<std::pair<int64_t, int64_t>> left;
    for (const auto& [begin, end] : whole.missing) {
      if (begin < std::min(end, first)) left.emplace_back(begin, std::min(end, first));
      if (std::max(begin, last) < end) left.emplace_back(std::max(begin, last), end);
    }
    whole.missing = std::move(left);
  }
  whole.written = true;
}

Var Tape::counter(const std::string& name, int64_t stride) {
  if (stride < 0) throw Error("counter {}: stride {}; zero or more is allowed", name, stride);
  const Var var = state(name, {1}, 0, DType::i32);
  counters_.push_back({var, stride});
  return var;
}

Var Tape::parameter(const std::string& name, Shape shape, Fill init, DType dtype) {
  if (flat_) throw Error("parameter {} is declared after the flat arena was used; declare all parameters first", name);
  if (!named_parameters_.empty() && dtype != parameter_dtype_)
    throw Error("parameter {} is {}; all parameters of a tape share one dtype, here {}", name, name_of(dtype),
                name_of(parameter_dtype_));
  parameter_dtype_ = dtype;
  const int64_t unit = kAlign / size_of(dtype), begin = ceil_div(parameter_elements_, unit) * unit;
  Value value{.name = name, .dtype = dtype, .shape = std::move(shape), .home = Home::parameters, .fill = init};
  value.initial = true;
  value.offset = begin * size_of(stored(dtype));
  parameter_elements_ = begin + elements(value);
  Value gradient{.name = name + ".gradient", .dtype = dtype, .shape = value.shape, .home = Home::gradients};
  gradient.offset = value.offset;
  const Var var = declare_named(named_parameters_, std::move(value));
  const int id = declare(std::move(gradient)).id;
  values_[index(var)].gradient = id;
  return var;
}

Var Tape::gradient(Var parameter) const {
  const Value& value = values_[index(parameter)];
  if (value.gradient < 0) throw Error("{} is not a parameter and has no gradient", value.name);
  return {value.gradient};
}

int64_t Tape::parameter_count() {
  flat_ = true;
  return parameter_elements_;
}
Var Tape::master() {
  const int64_t n = parameter_count();
  const Var var = declare_named(named_states_, {"master", DType::f32, {n}, Home::kept, Fill::constant(0)});
  master_ = var.id;
  return var;
}
Var Tape::parameters() { return declare({"parameters", parameter_dtype_, {parameter_count()}, Home::parameters, {}}); }
Var Tape::gradients() { return declare({"gradients", parameter_dtype_, {parameter_count()}, Home::gradients, {}}); }

void Tape::phase(const std::string& name) {
  require_planned(false, "phase");
  phases_.push_back(name);
  phase_end_.push_back(nodes_.size());
}

Outputs Tape::add(const Problem& problem, const std::vector<Var>& inputs, Bindings outputs) {
  require_planned(false, "add");
  problem.validate();
  if (phases_.empty()) phase("step");
  const std::string job = problem.name() + " " + problem.label();
  const std::vector<TensorSpec> specs = problem.tensors();
  std::vector<Var> slots(specs.size());
  size_t first_output = specs.size();
  auto next = inputs.begin();
  for (size_t s = 0; s < specs.size(); ++s) {
    const TensorSpec& spec = specs[s];
    if (spec.role == Role::out) {
      first_output = std::min(first_output, s);
      for (const auto& [slot, var] : outputs)
        if (slot.index == static_cast<int>(s)) slots[s] = var;
      if (slots[s].id < 0)
        slots[s] = declare({problem.name() + "." + spec.name, spec.dtype, spec.shape, Home::temporary, {}});
    } else {
      if (next == inputs.end()) throw Error("{}: tensor {} is missing", job, spec.name);
      slots[s] = *next++;
    }
    Value& value = values_[index(slots[s])];
    if (value.dtype != spec.dtype || elements(value) != spec.elements())
      throw Error("{}: tensor {} is {} [{}], but {} is {} [{}]", job, spec.name, name_of(spec.dtype),
                  fmt::join(spec.shape, ", "), value.name, name_of(value.dtype), fmt::join(value.shape, ", "));
    if (spec.role != Role::out) use(value, spec.role, job);
  }
  for (size_t s = 0; s < specs.size(); ++s)  // an output may be an input
    if (specs[s].role == Role::out) use(values_[index(slots[s])], Role::out, job);
  if (next != inputs.end()) throw Error("{}: {} tensors given, {} expected", job, inputs.size(), next - inputs.begin());
  for (const auto& [slot, var] : outputs)
    if (slot.role != Role::out)
      throw Error("{}: tensor {} is {}; only outputs are bound", job, slot.name, name_of(slot.role));
  if (first_output == specs.size()) first_output = 0;  // only inouts: the Var is then the first tensor, and rarely used
  nodes_.push_back({problem, slots, phases_.size() - 1, recomputing_, "", nullptr, 0, {}});
  phase_end_.back() = nodes_.size();
  return {std::move(slots), first_output};
}

void Tape::output(const std::string& name, Var var) {
  require_planned(false, "output");
  for (const auto& [known, other] : named_outputs_)
    if (known == name) throw Error("the tape has two outputs named '{}'", name);
  root(values_[index(var)]).output = true;
  named_outputs_.emplace_back(name, var);
}

Var Tape::find(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto* names : {&named_inputs_, &named_parameters_, &named_states_, &named_outputs_})
    for (const auto& [candidate, var] : *names) {
      if (candidate == name) return var;
      known.push_back(candidate);
    }
  throw Error("the tape has no tensor '{}'; it has {}", name, fmt::join(known, " "));
}

}  // namespace duet
