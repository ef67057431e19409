// SPDX-License-Identifier: Apache-2.0
#include "models/model.h"

#include <algorithm>

#include "core/cpu_context.h"
#include "core/error.h"
#include "core/near_names.h"
#include "models/tape.h"

namespace duet {
namespace {
constexpr int64_t kMaxReplicas = 64;

struct Store {
  std::map<std::string, Model> models;
  std::map<std::string, Cases (*)(Scale)> cases;
  std::map<std::string, Cases> served;
};
Store& store() {
  static Store s;  // made on first use: registrations run before main in any order
  return s;
}

bool is_half(const std::vector<Attribute>& attributes) {
  return std::any_of(attributes.begin(), attributes.end(), [](const Attribute& a) {
    return a.name == "dtype" && (a.text() == name_of(DType::bf16) || a.text() == name_of(DType::f16));
  });
}
}  // namespace

// In 16 bits a layout is no default: a label that names it gives the same model when it is read.
std::vector<Attribute> Model::attributes() const {
  std::vector<Attribute> all = self_->attributes();
  all.push_back({.name = kReplicas,
                 .type = "int",
                 .doc = "replicas of a data-parallel step, on one device; `batch` is that of each",
                 .value = replicas_,
                 .allowed = {},
                 .dimension = false,
                 .is_default = replicas_ == 1});
  if (is_half(all))
    for (Attribute& a : all)
      if (a.name == kLayout) a.is_default = false;
  return all;
}

std::string Model::label() const {
  std::string text;
  for (const Attribute& a : attributes())
    if (a.type == "dtype" && a.name == "dtype")
      text += (text.empty() ? "" : "/") + a.text();
    else if (a.dimension || !a.is_default)
      text += (text.empty() ? "" : "/") + a.name + ":" + a.text();
  return text;
}

Model Model::changed(std::string_view attribute, std::string_view text) const {
  Model changed = *this;
  bool found = attribute == kReplicas;
  if (found)
    changed.replicas_ = attribute::parse_int(attribute, text);
  else
    changed.self_ = self_->with(attribute, text, found);
  if (!found) {
    std::vector<std::string> names;
    for (const Attribute& a : attributes()) names.push_back(a.name);
    throw Error("model {} has no attribute '{}'{}", name(), attribute, near_hint(attribute, names));
  }
  return changed;
}

Model Model::with_layout_of_dtype(const std::vector<std::string>& given) const {
  const auto is_given = [&](const char* name) { return std::find(given.begin(), given.end(), name) != given.end(); };
  const std::vector<Attribute> all = attributes();
  const bool has_layout = std::any_of(all.begin(), all.end(), [](const Attribute& a) { return a.name == kLayout; });
  return has_layout && is_given("dtype") && !is_given(kLayout) && is_half(all) ? changed(kLayout, "nhwc") : *this;
}

void Model::validate() const {
  if (const std::string reason = self_->invalid(); !reason.empty()) throw Error("model {}: {}", name(), reason);
  if (replicas_ < 1 || replicas_ > kMaxReplicas)
    throw Error("model {}: replicas {}: 1 to {} are allowed", name(), replicas_, kMaxReplicas);
}

void Model::train(Tape& tape) const {
  if (const std::string reason = self_->untrained(); !reason.empty()) throw Error("model {}: {}", name(), reason);
  self_->train(tape);
  if (replicas_ == 1) return;
  try {
    tape.replicate(replicas_);
  } catch (const Error& e) {
    throw Error("model {}: replicas {}: {}", name(), replicas_, e.what());
  }
}

// A tape that is not planned has no memory.
void Model::require_trained() const {
  CpuContext cpu(1);
  Tape tape(cpu, Tape::preferences_for(Device::cpu));
  train(tape);
}

// An inference of what was trained with these is that of a model without them; a case of one is not to be timed twice.
void Model::require_served() const {
  constexpr std::string_view kOfSteps[] = {"augment", "dropout",   "head_only", "mixed", "optimiser",
                                           "parts",   "recompute", "replicas",  "smooth"};
  for (const Attribute& a : attributes())
    if (!a.is_default && std::find(std::begin(kOfSteps), std::end(kOfSteps), a.name) != std::end(kOfSteps))
      throw Error("model {}: {} {}: only a training step has it; an inference allows its default", name(), a.name,
                  a.text());
  CpuContext cpu(1);
  Tape tape(cpu, Tape::preferences_for(Device::cpu));
  evaluate(tape);
  if (std::none_of(tape.outputs().begin(), tape.outputs().end(), [](const auto& o) { return o.first == "logits"; }))
    throw Error("model {}: {} gives a loss and no answer, so that there is nothing to serve", name(), label());
}

Model Model::with(std::string_view attribute, std::string_view text) const {
  const Model model = changed(attribute, text).with_layout_of_dtype({std::string(attribute)});
  model.validate();
  return model;
}

Model Model::with(const std::vector<std::pair<std::string, std::string>>& attributes) const {
  Model model = *this;
  std::vector<std::string> given;
  for (const auto& [attribute, text] : attributes) {
    model = model.changed(attribute, text);
    given.push_back(attribute);
  }
  model = model.with_layout_of_dtype(given);
  model.validate();
  return model;
}

Model Model::with_words(std::string_view words) const {
  Model model = *this;
  std::vector<std::string> given;
  for (const CaseWord& w : words_of(words)) {
    if (w.kind == CaseWord::Kind::fill)
      throw Error("model {}: '{}={}': only ops have named fills", name(), w.name, w.value);
    model = model.changed(w.name, w.value);
    given.emplace_back(w.name);
  }
  model = model.with_layout_of_dtype(given);
  model.validate();
  return model;
}

const std::map<std::string, Model>& models() { return store().models; }

const Model& find_model(std::string_view name) {
  const auto found = store().models.find(std::string(name));
  if (found != store().models.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, model] : store().models) names.push_back(known);
  throw Error("model '{}' is unknown{}", name, near_hint(name, names));
}

std::vector<ModelCase> model_cases(Scale scale) {
  std::vector<ModelCase> all;
  for (const auto& [name, cases] : store().cases)
    for (const Case& c : cases(scale)) all.push_back({c.why, find_model(name).with_words(c.text)});
  return all;
}

const Cases& served_forms(const Model& model) { return store().served.at(model.name()); }

namespace registration {
bool add_model(Model model, Cases (*cases)(Scale), Cases served) {
  const std::string name = model.name();
  if (!store().models.emplace(name, std::move(model)).second) throw Error("model {} is registered twice", name);
  store().cases.emplace(name, cases);
  store().served.emplace(name, std::move(served));
  return true;
}
}  // namespace registration
}  // namespace duet
