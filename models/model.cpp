// SPDX-License-Identifier: Apache-2.0
#include "models/model.h"

#include <fmt/ranges.h>

#include "core/error.h"

namespace duet {
namespace {
struct Store {
  std::map<std::string, Model> models;
  std::map<std::string, std::function<std::vector<ModelCase>(Scale)>> cases;
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

Model Model::with(std::string_view attribute, std::string_view text) const {
  bool found = false;
  Model changed(self_->with(attribute, text, found));
  if (!found) {
    std::vector<std::string> names;
    for (const Attribute& a : attributes()) names.push_back(a.name);
    throw Error("model {} has no attribute '{}'; it has {}", name(), attribute, fmt::join(names, " "));
  }
  if (const std::string reason = changed.self_->invalid(); !reason.empty()) throw Error("model {}: {}", name(), reason);
  return changed;
}

const std::map<std::string, Model>& models() { return store().models; }

const Model& find_model(std::string_view name) {
  const auto found = store().models.find(std::string(name));
  if (found != store().models.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, model] : store().models) names.push_back(known);
  throw Error("model '{}' is not one of {}", name, fmt::join(names, " "));
}

std::vector<ModelCase> model_cases(Scale scale) {
  std::vector<ModelCase> all;
  for (const auto& [name, cases] : store().cases)
    for (ModelCase& c : cases(scale)) all.push_back(std::move(c));
  return all;
}

namespace registration {
bool add_model(Model model, std::function<std::vector<ModelCase>(Scale)> cases) {
  const std::string name = model.name();
  if (!store().models.emplace(name, std::move(model)).second) throw Error("model {} is registered twice", name);
  store().cases.emplace(name, std::move(cases));
  return true;
}
}  // namespace registration
}  // namespace duet
