// SPDX-License-Identifier: Apache-2.0
#include "core/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <typeindex>
#include <unordered_map>

#include "core/error.h"
#include "core/near_names.h"
#include "core/op_traits.h"

namespace duet {

extern const char* const duet_registry_golden;  // ops/registry_golden.txt, embedded by CMake

namespace {
struct Store {
  std::map<std::string, Op> ops;
  std::unordered_map<std::type_index, const Op*> by_type;
  std::map<std::pair<std::string, std::string>, Implementation> implementations;  // (op, name)
};
Store& store() {
  static Store s;  // made on first use: registrations run before main in any order
  return s;
}
}  // namespace

const Op& Problem::op() const {
  const auto found = store().by_type.find(self_->type());
  if (found == store().by_type.end()) throw Error("a problem type was used that no DUET_PROBLEM registered");
  return *found->second;
}

std::vector<Attribute> Problem::attributes() const { return self_->attributes(); }

std::string Problem::label() const {
  std::string text;
  for (const Attribute& a : attributes())
    if (a.type == "dtype" && a.name == "dtype")
      text += (text.empty() ? "" : "/") + a.text();
    else if (a.dimension || !a.is_default)
      text += (text.empty() ? "" : "/") + a.name + ":" + a.text();
  for (const NamedFill& f : fills_) text += (text.empty() ? "" : "/") + f.tensor + "=" + f.text;
  return text;
}

std::vector<TensorSpec> Problem::tensors() const {
  std::vector<TensorSpec> specs = self_->tensors();
  for (const NamedFill& f : fills_)
    for (TensorSpec& t : specs)
      if (f.tensor == t.name) t.fill = Fill::from(f.text, t.fill);
  return specs;
}

DType Problem::dtype() const {
  for (const Attribute& a : attributes())
    if (a.name == "dtype") return dtype_from(a.text());
  return DType::f32;
}

std::function<double(int64_t, uint32_t)> Problem::drawn(int slot) const {
  const std::string name = self_->tensors()[static_cast<size_t>(slot)].name;
  const bool named = std::any_of(fills_.begin(), fills_.end(), [&](const NamedFill& f) { return f.tensor == name; });
  return named ? nullptr : self_->drawn(slot);
}

int64_t Problem::bytes() const {
  int64_t sum = 0;
  for (const TensorSpec& t : tensors()) sum += t.traffic_bytes();
  return sum;
}
int64_t Problem::footprint_bytes() const {
  int64_t sum = 0;
  for (const TensorSpec& t : tensors()) sum += t.bytes();
  return sum;
}

Problem Problem::with(std::string_view attribute, std::string_view text) const {
  bool found = false;
  auto changed = self_->with(attribute, text, found);
  if (!found) {
    std::vector<std::string> names;
    for (const Attribute& a : attributes()) names.push_back(a.name);
    throw Error("{} has no attribute '{}'{}", name(), attribute, near_hint(attribute, names));
  }
  return Problem(std::move(changed), fills_);
}

Problem Problem::with_words(std::string_view words) const {
  Problem problem = *this;
  for (const CaseWord& w : words_of(words))
    if (w.kind == CaseWord::Kind::attribute)
      problem = problem.with(w.name, w.value);
    else
      problem.fills_.push_back({std::string(w.name), std::string(w.value)});
  return problem;
}

Problem Problem::inferred(const Shapes& shapes) const { return Problem(self_->inferred(shapes), fills_); }

// Contracts write numbers by std::to_string, which has six decimals: a value of 1e-9 would be shown as 0.000000.
static std::string with_exact_numbers(std::string text, const std::vector<Attribute>& attributes) {
  for (const Attribute& a : attributes) {
    const auto* value = std::get_if<double>(&a.value);
    if (!value) continue;
    const std::string rounded = std::to_string(*value);
    const auto single = static_cast<float>(*value);
    const std::string exact = single == *value ? fmt::format("{}", single) : fmt::format("{}", *value);
    if (const size_t at = text.find(rounded); at != text.npos) text.replace(at, rounded.size(), exact);
  }
  return text;
}

void Problem::validate() const {
  for (const Attribute& a : attributes()) {
    const auto* value = std::get_if<int64_t>(&a.value);
    if (value && *value < 0 && a.dimension)
      throw Error("{}: attribute {} is {}; zero or more is allowed", name(), a.name, *value);
  }
  if (const std::string reason = self_->invalid(); !reason.empty())
    throw Error("{}: {}", name(), with_exact_numbers(reason, attributes()));
  int64_t sum = 0;
  const std::vector<TensorSpec> specs = tensors();
  for (const TensorSpec& t : specs)
    if (__builtin_add_overflow(sum, t.bytes(), &sum)) throw Error("{}: the tensors' sizes overflow", name());
  for (const NamedFill& f : fills_) {
    const auto spec = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& t) { return f.tensor == t.name; });
    if (spec == specs.end() || spec->role == Role::out) {
      std::vector<std::string> names;
      for (const TensorSpec& t : specs)
        if (t.role != Role::out) names.emplace_back(t.name);
      throw Error("{}={}: {} has no input of this name; it has {}", f.tensor, f.text, name(), fmt::join(names, " "));
    }
    const Fill& fill = spec->fill;
    if ((!is_float(spec->dtype) && fill.kind >= Fill::Kind::edges) ||
        (is_integer(spec->dtype) && !(std::isfinite(fill.a) && std::isfinite(fill.last.value_or(0)))))
      throw Error("{}={}: {} holds {}; finite numbers are allowed", f.tensor, f.text, f.tensor, name_of(spec->dtype));
  }
}

// --- asking ------------------------------------------------------------------------------------------------------

const std::map<std::string, Op>& ops() { return store().ops; }

const Op& find_op(std::string_view name) {
  const auto found = store().ops.find(std::string(name));
  if (found != store().ops.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, p] : store().ops) names.push_back(known);
  throw Error("op '{}' is unknown{}", name, near_hint(name, names));
}

std::vector<const Implementation*> implementations(std::string_view op) {
  std::vector<const Implementation*> list;
  for (const auto& [key, implementation] : store().implementations)
    if (key.first == op) list.push_back(&implementation);
  return list;
}

const Implementation* find_implementation(std::string_view op, std::string_view name) {
  const auto found = store().implementations.find({std::string(op), std::string(name)});
  return found == store().implementations.end() ? nullptr : &found->second;
}

const std::vector<GoldenLine>& registry_golden() {
  static const std::vector<GoldenLine> lines = [] {
    std::vector<GoldenLine> all;
    std::istringstream text(duet_registry_golden);
    for (std::string line; std::getline(text, line);) {
      std::istringstream words(line.substr(0, line.find('#')));
      if (GoldenLine g; words >> g.op >> g.implementation) all.push_back(g);
    }
    return all;
  }();
  return lines;
}

JobName JobName::parse(std::string_view text) {
  const size_t a = end_of_op(text), b = a == text.npos ? a : text.find('/', a + 1);
  if (b == text.npos || a == 0 || b == a + 1 || b + 1 == text.size())
    throw Error("job '{}' does not read <op>/<implementation>/<dtype>/<name>:<value>/...", text);
  return {std::string(text.substr(0, a)), std::string(text.substr(a + 1, b - a - 1)), std::string(text.substr(b + 1))};
}

Problem parse_case(std::string_view op, std::string_view text) {
  const Problem plain = find_op(op).make();
  try {
    const Problem problem = plain.with_words(text);
    const std::vector<CaseWord> words = words_of(text);
    for (const Attribute& a : plain.attributes())
      if (a.dimension && a.text() == "0" && std::none_of(words.begin(), words.end(), [&](const CaseWord& w) {
            return w.kind == CaseWord::Kind::attribute && w.name == a.name;
          }))
        throw Error("{}:N is missing: {}", a.name, a.doc);
    problem.validate();
    return problem;
  } catch (const Error& e) {
    throw Error("{} case '{}': {}", op, text, e.what());
  }
}

std::vector<ProblemCase> Op::cases(Scale scale) const {
  std::vector<ProblemCase> all;
  std::set<std::string> labels;
  for (const Case& c : lines(scale))
    if (const Problem p = parse_case(name, c.text); labels.insert(p.label()).second) all.push_back({c.why, p});
  return all;
}

// --- entering ----------------------------------------------------------------------------------------------------

namespace registration {
namespace {
// "softmax_tuned" -> "tuned"; of the op study/transfer, "study_transfer_libc" -> "libc"
std::string variant_of(std::string_view function, std::string op) {
  std::replace(op.begin(), op.end(), '/', '_');
  if (function.size() <= op.size() + 1 || function.substr(0, op.size()) != op || function[op.size()] != '_')
    throw Error("implementation function '{}' must be named {}_<variant>", function, op);
  return std::string(function.substr(op.size() + 1));
}
}  // namespace

bool add_op(Op op, const char* source_file) {
  // .../cpu_ref/norm/softmax.cpp -> norm
  const std::string path = source_file;
  const size_t end = path.rfind('/'), begin = end == path.npos || end == 0 ? path.npos : path.rfind('/', end - 1);
  if (end != path.npos)
    op.family = path.substr(begin == path.npos ? 0 : begin + 1, end - (begin == path.npos ? 0 : begin + 1));
  const auto [at, fresh] = store().ops.emplace(op.name, std::move(op));
  if (!fresh) throw Error("op {} is registered twice", at->first);
  store().by_type[*at->second.type] = &at->second;
  return true;
}

bool add_implementation(const char* op, Device device, const char* function_name, PlanFunction plan) {
  const std::pair key{std::string(op), std::string(name_of(device)) + "." + variant_of(function_name, op)};
  if (!store().implementations.emplace(key, Implementation{key.first, key.second, device, plan}).second)
    throw Error("{} {} is registered twice", key.first, key.second);
  return true;
}

}  // namespace registration
}  // namespace duet
