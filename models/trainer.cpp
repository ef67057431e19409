// SPDX-License-Identifier: Apache-2.0
#include "models/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numeric>

#include "models/layers.h"

namespace duet {
namespace {

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

void upload_numbers(Tape& tape, Var var, const std::vector<float>& values) {  // rounded to the tensor's dtype
  const DType dtype = tape.dtype(var);
  const auto count = static_cast<int64_t>(values.size());
  if (dtype == DType::f32) return tape.upload(var, std::span<const float>(values));
  std::vector<char> rounded(values.size() * static_cast<size_t>(size_of(dtype)));
  for (int64_t i = 0; i < count; ++i) store_double(rounded.data(), dtype, i, values[static_cast<size_t>(i)]);
  tape.upload(var, rounded.data(), dtype, count);
}

SampleForm form_of(const Model& model, const Tape& train, const Tape& evaluate) {
  for (const auto& [name, var] : train.inputs())
    if (name != "x" && name != "label")
      throw Error("model {} takes {} as well, for which there are no data", model.name(), name);
  const auto elements = [](const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  };
  const Var x = train.find("x"), label = train.find("label");
  const Shape shape = train.shape(x), labels = train.shape(label);
  SampleForm form;
  form.batch = shape.at(0);
  form.features = elements(shape) / form.batch;
  form.targets = elements(labels) / form.batch;
  form.classes = evaluate.shape(evaluate.find("logits")).back();
  form.tokens = train.dtype(x) == DType::i32;
  form.binary = train.dtype(label) != DType::i32;
  form.label_for_each_token = form.tokens && !form.binary && labels.size() == shape.size();
  return form;
}

}  // namespace

SampleForm sample_form(const Model& model, Context& context) {
  const Tape::Preferences preferences = Tape::preferences_for(context.device());
  Tape train(context, preferences), evaluate(context, preferences);
  model.train(train);
  model.evaluate(evaluate);
  return form_of(model, train, evaluate);
}

Trainer::Trainer(const Model& model, Context& context, const Tape::Preferences& preferences, uint64_t seed)
    : context_(&context),
      train_(context, preferences, seed),
      evaluate_(context, preferences, seed),
      model_(model.name()),
      seed_(seed) {
  model.train(train_);
  model.evaluate(evaluate_);
  form_ = form_of(model, train_, evaluate_);
  train_.plan();
  evaluate_.plan();
  x_of_ = train_.find("x");
  label_of_ = train_.find("label");
  loss_of_ = train_.find("loss");
  evaluated_x_of_ = evaluate_.find("x");
  logits_of_ = evaluate_.find("logits");
  for (const Tape::Node& node : train_.nodes())
    for (const Var var : node.slots)
      if (var.id == loss_of_.id) loss_phase_ = node.phase;
  const auto elements = static_cast<size_t>(form_.batch * form_.features);
  form_.tokens ? token_.resize(elements) : x_.resize(elements);
  label_.resize(static_cast<size_t>(form_.batch * form_.targets));
  for (const Tape::Node& node : train_.nodes())
    if (node.problem.name() == "embedding" && node.slots[0].id == x_of_.id)
      vocabulary_ = train_.shape(node.slots[1])[0];
}

void Trainer::learning_rate(double lr) {
  const auto value = static_cast<float>(lr);
  train_.upload(train_.find("lr"), std::span(&value, 1));
}

void Trainer::require_fitting(const Dataset& data) const {
  const char* what = data.token.empty() ? "features" : "tokens";
  if (data.features != form_.features)
    throw Error("the data has {} {} a sample, the model {}", data.features, what, form_.features);
  if (data.targets != form_.targets)
    throw Error("the data has {} labels a sample, the model {}", data.targets, form_.targets);
  if (data.token.empty() != token_.empty())
    throw Error("the data has {}, the model takes {}", data.token.empty() ? "numbers" : "tokens",
                token_.empty() ? "numbers" : "tokens");
  const auto values = static_cast<int64_t>(data.token.empty() ? data.x.size() : data.token.size());
  if (values != data.size() * form_.features)
    throw Error("the data has {} {} for {} samples: every sample has {}", values, what, data.size(), form_.features);
  const auto within = [](const std::vector<int32_t>& list, int64_t end, const char* each) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i] < 0 || list[i] >= end)
        throw Error("the data has {} {} at position {}; the model takes 0 to {}", each, list[i], i, end - 1);
  };
  within(data.label, form_.binary ? 2 : form_.classes, "label");
  if (vocabulary_ > 0) within(data.token, vocabulary_, "token");
}

void Trainer::gather(const Dataset& data, const std::vector<int64_t>& samples) {
  const auto copy = [&](auto& to, const auto& from, int64_t width) {
    if (from.empty()) return;
    for (size_t i = 0; i < samples.size(); ++i)
      std::memcpy(to.data() + static_cast<int64_t>(i) * width, from.data() + samples[i] * width,
                  static_cast<size_t>(width) * sizeof from[0]);
  };
  copy(x_, data.x, form_.features);
  copy(token_, data.token, form_.features);
  copy(label_, data.label, form_.targets);
}

void Trainer::upload_x(Tape& tape, Var var) const {
  token_.empty() ? upload_numbers(tape, var, x_) : tape.upload(var, std::span<const int32_t>(token_));
}
void Trainer::upload_labels() {
  if (!form_.binary) return train_.upload(label_of_, std::span<const int32_t>(label_));
  upload_numbers(train_, label_of_, std::vector<float>(label_.begin(), label_.end()));
}

// The loss is read before the backward pass, so that a loss that is not finite changes no parameter. It is the loss
// without scale; a step whose scaled gradients overflow is left out by the optimiser and is no error.
double Trainer::step() {
  train_.begin_step();
  for (size_t p = 0; p <= loss_phase_; ++p) train_.run_phase(p);
  const double loss = train_.download(loss_of_)[0];
  ++steps_;
  if (!std::isfinite(loss)) return loss;
  for (size_t p = loss_phase_ + 1; p < train_.phases().size(); ++p) train_.run_phase(p);
  return loss;
}

// The name of the first tensor that is not finite: an input, a parameter, or an output of the forward pass.
std::string Trainer::first_non_finite() {
  for (const auto* list : {&train_.inputs(), &train_.named_parameters()})
    for (const auto& [name, var] : *list)
      if (!train_.finite(var)) return name;
  for (size_t i = 0; i < train_.nodes().size() && train_.nodes()[i].phase <= loss_phase_; ++i) {
    train_.run_node(i);
    const Tape::Node& node = train_.nodes()[i];
    const std::vector<TensorSpec> specs = node.problem.tensors();
    for (size_t s = 0; s < specs.size(); ++s)
      if (specs[s].role != Role::in && !train_.finite(node.slots[s]))
        return fmt::format("{} of {} {}", specs[s].name, node.problem.name(), node.problem.label());
  }
  return "loss";
}

double Trainer::epoch(const Dataset& data) {
  require_fitting(data);
  if (data.size() < form_.batch) throw Error("{} samples are fewer than the batch of {}", data.size(), form_.batch);
  const std::vector<int64_t> order = shuffled(data.size(), (seed_ << 16) + static_cast<uint64_t>(++epochs_));
  double sum = 0;
  const int64_t batches = data.size() / form_.batch;
  std::vector<int64_t> samples(static_cast<size_t>(form_.batch));
  context_->enter([&] {
    for (int64_t b = 0; b < batches; ++b) {
      std::copy_n(order.begin() + b * form_.batch, form_.batch, samples.begin());
      gather(data, samples);
      upload_x(train_, x_of_);
      upload_labels();
      const double loss = step();
      if (!std::isfinite(loss))
        throw Error(
            "the loss is {} in step {} (epoch {}, batch {}), where {} is the first tensor that is not finite: a "
            "lower learning rate may help",
            std::isnan(loss) ? "NaN" : "infinite", steps_, epochs_, b + 1, first_non_finite());
      sum += loss;
    }
  });
  require_loss_scale();
  for (const auto& [name, var] : persistent_tensors())  // no loss has checked the last update yet
    if (!train_.finite(var))
      throw Error("{} is not finite after step {} (epoch {}): a lower learning rate may help", name, steps_, epochs_);
  return sum / static_cast<double>(batches);
}

// Every step with an overflow halves the scale. Where no scale is small enough, all steps are left out.
void Trainer::require_loss_scale() const {
  for (const auto& [name, var] : train_.states())
    if (const double scale = name == kLossScale ? train_.download(var)[0] : 1; !(scale > underflow(DType::f32)))
      throw Error("the loss scale has fallen to {:.3g} by step {}: gradients are not finite whatever it is", scale,
                  steps_);
}

double Trainer::accuracy(const Dataset& data) {
  require_fitting(data);
  evaluate_.copy_state_from(train_);
  const int64_t width = form_.binary ? 1 : form_.classes;
  int64_t correct = 0;
  context_->enter([&] {
    std::vector<int64_t> samples(static_cast<size_t>(form_.batch));
    for (int64_t first = 0; first < data.size(); first += form_.batch) {
      for (int64_t i = 0; i < form_.batch; ++i) samples[static_cast<size_t>(i)] = std::min(first + i, data.size() - 1);
      gather(data, samples);
      upload_x(evaluate_, evaluated_x_of_);
      evaluate_.run();
      const std::vector<double> logits = evaluate_.download(logits_of_);
      if (!evaluate_.finite(logits_of_))
        throw Error("logits of samples {} to {} are not finite (epoch {}): a lower learning rate may help", first,
                    std::min(first + form_.batch, data.size()) - 1, epochs_);
      for (int64_t i = 0; i < std::min(form_.batch, data.size() - first) * form_.targets; ++i) {
        const auto row = logits.begin() + i * width;
        const int64_t predicted = form_.binary ? row[0] > 0 : std::max_element(row, row + width) - row;
        correct += predicted == data.label[static_cast<size_t>(first * form_.targets + i)];
      }
    }
  });
  return data.size() ? static_cast<double>(correct) / static_cast<double>(data.size() * form_.targets) : 0;
}

// --- checkpoints -----------------------------------------------------------------------------------------------------

std::vector<std::pair<std::string, Var>> Trainer::persistent_tensors() const {
  std::vector<std::pair<std::string, Var>> all = train_.named_parameters();
  all.insert(all.end(), train_.states().begin(), train_.states().end());
  return all;
}

Checkpoint Trainer::checkpoint() const {
  Checkpoint c;
  c.metadata = {{"model", model_},
                {"seed", std::to_string(seed_)},
                {"epochs", std::to_string(epochs_)},
                {"steps", std::to_string(steps_)}};
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

void Trainer::restore(const Checkpoint& c) {
  const auto made_by = c.metadata.find("model");
  if (made_by == c.metadata.end() || made_by->second != model_)
    throw Error("the checkpoint is of model '{}', not of {}", made_by == c.metadata.end() ? "" : made_by->second,
                model_);
  const int64_t seed = whole_number(c, "seed"), epochs = whole_number(c, "epochs"), steps = whole_number(c, "steps");
  if (static_cast<uint64_t>(seed) != seed_)
    throw Error("the checkpoint was trained with seed {}, not {}: other samples would be in the test", seed, seed_);
  const auto tensors = persistent_tensors();
  for (const auto& [name, var] : tensors) {
    const auto found = c.tensors.find(name);
    if (found == c.tensors.end()) throw Error("the checkpoint has no tensor {}", name);
    if (found->second.dtype != train_.dtype(var) || found->second.shape != train_.shape(var))
      throw Error("the checkpoint's tensor {} is {} [{}], the model's {} [{}]", name, name_of(found->second.dtype),
                  fmt::join(found->second.shape, ", "), name_of(train_.dtype(var)), fmt::join(train_.shape(var), ", "));
  }
  for (const auto& [name, entry] : c.tensors)
    if (std::none_of(tensors.begin(), tensors.end(), [&, &name = name](const auto& t) { return t.first == name; }))
      throw Error("the checkpoint's tensor {} is not one of the model's", name);

  for (const auto& [name, var] : tensors) {
    const Checkpoint::Entry& entry = c.tensors.at(name);
    train_.upload(var, entry.bytes.data(), entry.dtype,
                  static_cast<int64_t>(entry.bytes.size()) / size_of(entry.dtype));
  }
  epochs_ = epochs;
  steps_ = steps;
  train_.continue_after(static_cast<uint64_t>(steps));
}

}  // namespace duet
