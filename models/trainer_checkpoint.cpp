// SPDX-License-Identifier: Apache-2.0
// What a trainer keeps in a checkpoint and takes from one, and what tells that a checkpoint fits.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "models/layers.h"
#include "models/predictor.h"
#include "models/trainer.h"

namespace duet {
namespace {

constexpr const char* kVersion = "1";                  // of the checkpoint's metadata
constexpr const char* kChosenKey = "implementations";  // of the checkpoint's metadata: an object as JSON
constexpr std::string_view kMaster = "master";         // of mixed precision: the parameters in f32
// What optimisers keep: a training that begins with a checkpoint's parameters may have another one.
constexpr std::string_view kOptimiserStates[] = {"lr", "step", "velocity", "m", "v", kMaster, kLossScale, "good_steps"};

using NamedVars = std::span<const std::pair<std::string, Var>>;

int64_t whole_number(const Checkpoint& checkpoint, const char* key) {
  const auto found = checkpoint.metadata.find(key);
  const std::string text = found == checkpoint.metadata.end() ? "" : found->second;
  int64_t number = -1;
  const char* end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, number);
      read.ec != std::errc() || read.ptr != end || number < 0)
    throw Error("the checkpoint's metadata {} is '{}'; a whole number below 2^63 is allowed", key, text);
  return number;
}

std::string layout_of(const Model& model) {
  for (const Attribute& a : model.attributes())
    if (a.name == kLayout) return a.text();
  return "";
}

bool has(NamedVars tensors, const std::string& name) {
  return std::ranges::any_of(tensors, [&](const auto& t) { return t.first == name; });
}

}  // namespace

std::vector<std::pair<std::string, Var>> Trainer::persistent_tensors() const {
  std::vector<std::pair<std::string, Var>> all = train_.named_parameters();
  all.insert(all.end(), train_.states().begin(), train_.states().end());
  return all;
}

Checkpoint Trainer::checkpoint() const {
  Checkpoint c;
  c.metadata = {{"model", model_.name()},
                {"version", kVersion},
                {"case", model_.label()},
                {"seed", std::to_string(seed_)},
                {"updates", std::to_string(updates_)},
                {"epochs", std::to_string(epochs_)},
                {"steps", std::to_string(steps_)}};
  if (options_.choice == Choice::measured) {
    Tape::Choices chosen = train_.choices();
    chosen.merge(evaluate_.choices());
    c.metadata[kChosenKey] = nlohmann::json(chosen).dump();
  }
  for (const auto& [name, var] : persistent_tensors()) {
    Checkpoint::Entry& entry = c.tensors[name];
    entry.dtype = train_.dtype(var);
    entry.shape = train_.shape(var);
    const std::vector<double> values = train_.download(var);
    entry.bytes.resize(values.size() * static_cast<size_t>(size_of(entry.dtype)));
    for (size_t i = 0; i < values.size(); ++i)
      store_double(entry.bytes.data(), entry.dtype, static_cast<int64_t>(i), values[i]);
  }
  return c;
}

Tape::Choices recorded_choices(const Checkpoint& c) {
  const auto found = c.metadata.find(kChosenKey);
  if (found == c.metadata.end()) return {};
  const auto json = nlohmann::json::parse(found->second, nullptr, false);
  const bool fits =
      json.is_object() && std::all_of(json.begin(), json.end(), [](const auto& v) { return v.is_string(); });
  if (!fits)
    throw Error("the checkpoint's metadata {}: an object of ops and their implementations is allowed", kChosenKey);
  return json.get<Tape::Choices>();
}

void require_made_by(const Checkpoint& c, const Model& model, bool same_layout) {
  const auto text = [&](const char* key) {
    const auto found = c.metadata.find(key);
    return found == c.metadata.end() ? std::string() : found->second;
  };
  if (text("model") != model.name())
    throw Error("the checkpoint is of model '{}', not of {}", text("model"), model.name());
  if (!text("version").empty() && text("version") != kVersion)
    throw Error("the checkpoint is of version '{}'; this program reads {}", text("version"), kVersion);
  if (!same_layout) return;
  const std::string layout = text("case").empty() ? "" : layout_of(find_model(model.name()).with_words(text("case")));
  if (!text("case").empty() && layout != layout_of(model))
    throw Error("the checkpoint's layout is {}, the model's {}: filters are stored in another order", layout,
                layout_of(model));
}

void require_teacher(const Checkpoint& c, const Model& model) {
  const std::optional<Model> teacher = model.teacher();
  if (!teacher) throw Error("model {} {} has no teacher", model.name(), model.label());
  require_made_by(c, *teacher);
  const std::vector<Attribute> made = trained_model(c, *teacher).attributes(), wanted = teacher->attributes();
  for (size_t i = 0; i < wanted.size(); ++i)
    if (const std::string& name = wanted[i].name;
        name != "batch" && name != "mixed" && name != kReplicas && made[i].text() != wanted[i].text())
      throw Error("the checkpoint's {} is {}, the teacher's {}", name, made[i].text(), wanted[i].text());
}

void require_alike(const Checkpoint& c, const Tape& tape, std::span<const std::pair<std::string, Var>> tensors) {
  for (const auto& [name, var] : tensors) {
    const auto found = c.tensors.find(name);
    if (found == c.tensors.end()) throw Error("the checkpoint has no tensor {}", name);
    if (found->second.dtype != tape.dtype(var) || found->second.shape != tape.shape(var))
      throw Error("the checkpoint's tensor {} is {} [{}], the model's {} [{}]", name, name_of(found->second.dtype),
                  fmt::join(found->second.shape, ", "), name_of(tape.dtype(var)), fmt::join(tape.shape(var), ", "));
  }
}

void upload_tensors(const Checkpoint& c, Tape& tape, std::span<const std::pair<std::string, Var>> tensors) {
  for (const auto& [name, var] : tensors) {
    const Checkpoint::Entry& entry = c.tensors.at(name);
    tape.upload(var, entry.bytes.data(), entry.dtype, static_cast<int64_t>(entry.bytes.size()) / size_of(entry.dtype));
  }
}

void Trainer::restore(const Checkpoint& c) {
  require_made_by(c, model_);
  const int64_t seed = whole_number(c, "seed"), epochs = whole_number(c, "epochs"), steps = whole_number(c, "steps");
  const int64_t updates = c.metadata.contains("updates") ? whole_number(c, "updates") : steps;
  if (static_cast<uint64_t>(seed) != seed_)
    throw Error("the checkpoint was trained with seed {}, not {}: other samples would be in the test", seed, seed_);
  const auto tensors = persistent_tensors();
  require_alike(c, train_, tensors);
  for (const auto& [name, entry] : c.tensors)
    if (!has(tensors, name)) throw Error("the checkpoint's tensor {} is not one of the model's", name);
  upload_tensors(c, train_, tensors);
  epochs_ = epochs;
  steps_ = steps;
  updates_ = updates;
  train_.continue_after(static_cast<uint64_t>(steps));
}

std::vector<std::string> Trainer::begin_with(const Checkpoint& c) {
  require_made_by(c, model_);
  const std::vector<Attribute> attributes = model_.attributes();
  const bool head_only = std::any_of(attributes.begin(), attributes.end(),
                                     [](const Attribute& a) { return a.name == "head_only" && a.text() == "1"; });
  std::vector<std::pair<std::string, Var>> tensors;
  std::vector<std::string> initial;
  for (const auto& [name, var] : train_.named_parameters()) {
    const auto found = c.tensors.find(name);
    const bool fits = found == c.tensors.end() || found->second.shape == train_.shape(var);
    if (fits || !head_only)
      tensors.emplace_back(name, var);
    else
      initial.push_back(name);
  }
  // Of the states, those of the evaluation and of the teacher; the others are the optimiser's. Its f32 parameters are
  // taken where the same ones were trained: the checkpoint's parameters are rounded.
  bool has_master = false;
  for (const auto& [name, var] : train_.states()) {
    const auto found = c.tensors.find(name);
    const bool fits = found != c.tensors.end() && found->second.shape == train_.shape(var);
    const bool master = name == kMaster && fits && initial.empty();
    has_master |= master;
    if (has(evaluate_.states(), name) || master || (name.starts_with(kTeacher) && found != c.tensors.end()))
      tensors.emplace_back(name, var);
  }
  for (const auto& [name, entry] : c.tensors)
    if (!has(train_.named_parameters(), name) && !has(train_.states(), name) &&
        std::ranges::find(kOptimiserStates, name) == std::end(kOptimiserStates) && !name.starts_with(kTeacher))
      throw Error("the checkpoint's tensor {} is not one of the model's", name);
  require_alike(c, train_, tensors);
  upload_tensors(c, train_, tensors);
  if (!has_master) train_.renew_master();
  return initial;
}

void Trainer::load_teacher(const Checkpoint& c) {
  require_teacher(c, model_);
  std::vector<std::pair<std::string, Var>> tensors;
  for (const auto& [name, var] : train_.states())
    if (name.starts_with(kTeacher)) tensors.emplace_back(name.substr(std::string_view(kTeacher).size()), var);
  if (tensors.empty())
    throw Error("the tape of model {} has no state whose name begins with {}", model_.name(), kTeacher);
  require_alike(c, train_, tensors);
  upload_tensors(c, train_, tensors);
}

}  // namespace duet
