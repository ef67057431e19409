// SPDX-License-Identifier: Apache-2.0
#include "models/model.h"

#include "core/error.h"
#include "core/near_names.h"

namespace duet {
namespace {
struct Store {
  std::map<std::string, Model> models;
  std::map<std::string, Cases (*)(Scale)> cases;
  std::map<std::string, Cases> served;
};
Store& store() {
  static Store s;  // made on first use: registrations run before main in any order
  return s;
}
}  // namespace

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
  bool found = false;
  Model changed(self_->with(attribute, text, found));
  if (!found) {
    std::vector<std::string> names;
    for (const Attribute& a : attributes()) names.push_back(a.name);
    throw Error("model {} has no attribute '{}'{}", name(), attribute, near_hint(attribute, names));
  }
  return changed;
}

void Model::validate() const {
  if (const std::string reason = self_->invalid(); !reason.empty()) throw Error("model {}: {}", name(), reason);
}

void Model::require_trained() const {
  if (const std::string reason = self_->untrained(); !reason.empty()) throw Error("model {}: {}", name(), reason);
}

Model Model::with(std::string_view attribute, std::string_view text) const {
  const Model model = changed(attribute, text);
  model.validate();
  return model;
}

Model Model::with(const std::vector<std::pair<std::string, std::string>>& attributes) const {
  Model model = *this;
  for (const auto& [attribute, text] : attributes) model = model.changed(attribute, text);
  model.validate();
  return model;
}

Model Model::with_words(std::string_view words) const {
  Model model = *this;
  for (const CaseWord& w : words_of(words)) {
    if (w.kind == CaseWord::Kind::fill)
      throw Error("model {}: '{}={}': only ops have named fills", name(), w.name, w.value);
    model = model.changed(w.name, w.value);
  }
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
