// SPDX-License-Identifier: Apache-2.0
#include "models/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <numeric>

#include "core/machine.h"
#include "models/gradient_work.h"
#include "models/layers.h"
#include "models/predictor.h"

namespace duet {
namespace {

constexpr size_t kPrefetchedBytes = 1 << 20;  // batches from this size on are gathered ahead of the step
constexpr int kMaxLoaders = 4;                // threads that gather a batch

void upload_numbers(Tape& tape, Var var, const std::vector<float>& values) {  // rounded to the tensor's dtype
  const DType dtype = tape.dtype(var);
  const auto count = static_cast<int64_t>(values.size());
  if (dtype == DType::f32) return tape.upload(var, std::span<const float>(values));
  std::vector<char> rounded(values.size() * static_cast<size_t>(size_of(dtype)));
  for (int64_t i = 0; i < count; ++i) store_double(rounded.data(), dtype, i, values[static_cast<size_t>(i)]);
  tape.upload(var, rounded.data(), dtype, count);
}

SampleForm form_of(const Model& model, const Tape& train, const Tape& evaluate) {
  if (train.replicas() > 1)
    throw Error("replicas {}: 1 is allowed, because training on a data set has one batch a step", train.replicas());
  for (const Attribute& a : model.attributes())
    if (a.name == "parts" && !a.is_default)
      throw Error("parts {}: 1 is allowed, because a checkpoint of a split network is not served", a.text());
  SampleForm form;
  for (const auto& [name, var] : train.inputs()) {
    if (name != "x" && name != "label" && name != "target" && name != "item")
      throw Error("model {} takes {} as well, for which there are no data", model.name(), name);
    form.pairs = form.pairs || name == "target";
  }
  if (train.inputs().size() == 3 && !form.pairs) {
    form.batch = train.shape(train.find("x")).at(0);
    form.features = 2;
    form.tokens = true;
    for (const Attribute& a : model.attributes())
      if (a.name == "users" || a.name == "items") (a.name == "users" ? form.users : form.items) = std::stoll(a.text());
    return form;
  }
  const auto elements = [](const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  };
  const Var x = train.find("x"), label = train.find("label");
  const Shape shape = train.shape(x), labels = train.shape(label);
  form.batch = shape.at(0);
  form.features = elements(shape) / form.batch;
  form.targets = elements(labels) / form.batch;
  form.classes = evaluate.shape(evaluate.find("logits")).back();
  form.tokens = train.dtype(x) == DType::i32;
  form.binary = train.dtype(label) != DType::i32;
  form.label_for_each_token = form.tokens && !form.binary && labels.size() == shape.size();
  if (shape.size() == 3 && !form.tokens) form.steps = shape[1];
  if (shape.size() == 4 && shape[2] == shape[3]) {
    form.channels = shape[1];
    form.side = shape[2];
  }
  return form;
}

double log_sum_exp(std::span<const double> row) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const double v : row) sum += std::exp(v - max);
  return max + std::log(sum);
}

}  // namespace

SampleForm sample_form(const Model& model, Context& context) {
  const Tape::Preferences preferences = Tape::preferences_for(context.device());
  Tape train(context, preferences), evaluate(context, preferences);
  model.train(train);
  model.evaluate(evaluate);
  return form_of(model, train, evaluate);
}

void require_memory_to_train(const Model& model, Context& context) {
  Tape train(context, Tape::preferences_for(context.device()));
  model.train(train);
  train.require_room();
}

Trainer::Trainer(const Model& model, Context& context, const Tape::Preferences& preferences, uint64_t seed,
                 const TrainingOptions& options)
    : context_(&context),
      train_(context, preferences, seed),
      evaluate_(context, preferences, seed),
      model_(model),
      seed_(seed),
      options_(options) {
  train_.choose_by(options.choice, options.chosen);
  evaluate_.choose_by(options.choice, options.chosen);
  model.train(train_);
  model.evaluate(evaluate_);
  form_ = form_of(model, train_, evaluate_);
  if (options.augmentation && form_.side == 0)
    throw Error("model {} takes no images: nothing can be augmented", model.name());
  train_.plan();
  evaluate_.plan();
  x_of_ = train_.find("x");
  label_of_ = train_.find("label");
  loss_of_ = train_.find("loss");
  evaluated_x_of_ = evaluate_.find("x");
  if (form_.users == 0) logits_of_ = evaluate_.find("logits");
  if (form_.pairs) {
    target_of_ = train_.find("target");
    evaluated_target_of_ = evaluate_.find("target");
  }
  for (const Tape::Node& node : train_.nodes())
    for (const Var var : node.slots)
      if (var.id == loss_of_.id) loss_phase_ = node.phase;
  for (size_t p = 0; p < train_.phases().size() && optimiser_phase_ == SIZE_MAX; ++p)
    if (train_.phases()[p] == kOptimiser) optimiser_phase_ = p;
  if (options.accumulate > 1 || options.max_norm > 0)
    gradient_work_ =
        std::make_unique<GradientWork>(train_, model.name(), preferences, options.accumulate, options.max_norm);
  for (const Tape::Node& node : train_.nodes())
    if (node.problem.name() == "embedding" && node.slots[0].id == x_of_.id)
      vocabulary_ = train_.shape(node.slots[1])[0];
}

Trainer::~Trainer() = default;

void Trainer::learning_rate(double lr) {
  const auto value = static_cast<float>(lr);
  train_.upload(train_.find("lr"), std::span(&value, 1));
}
double Trainer::learning_rate() const { return train_.download(train_.find("lr"))[0]; }

void Trainer::require_fitting(const Dataset& data) const {
  const char* what = data.token.empty() ? "features" : "tokens";
  if (data.features != form_.features)
    throw Error("the data has {} {} a sample, the model {}", data.features, what, form_.features);
  if (data.targets != form_.targets)
    throw Error("the data has {} labels a sample, the model {}", data.targets, form_.targets);
  if (data.token.empty() == form_.tokens)
    throw Error("the data has {}, the model takes {}", data.token.empty() ? "numbers" : "tokens",
                form_.tokens ? "tokens" : "numbers");
  const auto values = static_cast<int64_t>(data.token.empty() ? data.x.size() : data.token.size());
  if (values != data.size() * form_.features)
    throw Error("the data has {} {} for {} samples: every sample has {}", values, what, data.size(), form_.features);
  const auto within = [](const std::vector<int32_t>& list, int64_t end, const char* each) {
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i] < 0 || list[i] >= end)
        throw Error("the data has {} {} at position {}; the model takes 0 to {}", each, list[i], i, end - 1);
  };
  if (form_.users > 0) {
    for (size_t i = 0; i < data.token.size(); ++i)
      if (const int64_t end = i % 2 == 0 ? form_.users : form_.items; data.token[i] < 0 || data.token[i] >= end)
        throw Error("the data has {} {} at position {}; the model takes 0 to {}", i % 2 == 0 ? "user" : "item",
                    data.token[i], i / 2, end - 1);
    if (static_cast<int64_t>(data.value.size()) != data.size() || data.value.empty())
      throw Error("the data has {} ratings; one for each sample is needed", data.value.size());
    return;
  }
  within(data.label, form_.binary ? 2 : form_.classes, "label");
  if (vocabulary_ > 0) within(data.token, vocabulary_, "token");
}

// --- batches ---------------------------------------------------------------------------------------------------------

// augmented_in: the epoch whose changes the images get; negative: none.
void Trainer::gather(const Dataset& data, std::span<const int64_t> samples, int64_t augmented_in, Batch& batch) const {
  const size_t count = samples.size();
  const auto copy = [&](auto& to, const auto& from, int64_t width, size_t i) {
    if (from.empty()) return;
    std::memcpy(to.data() + static_cast<int64_t>(i) * width, from.data() + samples[i] * width,
                static_cast<size_t>(width) * sizeof from[0]);
  };
  batch.x.resize(data.x.empty() ? 0 : count * static_cast<size_t>(form_.features));
  batch.token.resize(data.token.empty() ? 0 : count * static_cast<size_t>(form_.features));
  batch.label.resize(data.label.empty() ? 0 : count * static_cast<size_t>(form_.targets));
  batch.value.resize(data.value.empty() ? 0 : count);
  const bool augmented = options_.augmentation && augmented_in >= 0;
  const auto take = [&](size_t i) {
    copy(batch.token, data.token, form_.features, i);
    copy(batch.label, data.label, form_.targets, i);
    copy(batch.value, data.value, 1, i);
    if (!augmented) return copy(batch.x, data.x, form_.features, i);
    augment(data.x.data() + samples[i] * form_.features, batch.x.data() + static_cast<int64_t>(i) * form_.features,
            form_.channels, form_.side, *options_.augmentation, seed_, augmented_in, samples[i]);
  };
  const auto loaders = static_cast<size_t>(augmented ? std::clamp(usable_threads(), 1, kMaxLoaders) : 1);
  std::vector<std::future<void>> others;
  for (size_t loader = 1; loader < loaders; ++loader)
    others.push_back(std::async(std::launch::async, [&, loader] {
      for (size_t i = loader; i < count; i += loaders) take(i);
    }));
  for (size_t i = 0; i < count; i += loaders) take(i);
  for (auto& other : others) other.get();
  if (!form_.pairs) return;
  batch.target = shifted(batch.label, form_.targets);
}

std::vector<int32_t> shifted(std::span<const int32_t> labels, int64_t length) {
  std::vector<int32_t> target(labels.begin(), labels.end());
  for (int64_t first = 0; first < static_cast<int64_t>(target.size()); first += length) {
    const auto begin = target.begin() + first;
    std::copy_backward(begin, begin + length - 1, begin + length);
    *begin = kFirstToken;
  }
  return target;
}

void upload_samples(Tape& tape, Var var, const std::vector<float>& x, const std::vector<int32_t>& token) {
  token.empty() ? upload_numbers(tape, var, x) : tape.upload(var, std::span<const int32_t>(token));
}

// Users and items are columns of the tokens. A batch that is not full has users beyond the model's, which mf_step
// leaves out.
void Trainer::upload_ratings(Tape& tape, const Batch& batch) const {
  const auto count = static_cast<size_t>(form_.batch);
  std::vector<int32_t> user(count, -1), item(count, 0);
  std::vector<float> rating(count, 0);
  for (size_t i = 0; i < batch.value.size(); ++i) {
    user[i] = batch.token[2 * i];
    item[i] = batch.token[2 * i + 1];
    rating[i] = batch.value[i];
  }
  tape.upload(tape.find("x"), std::span<const int32_t>(user));
  tape.upload(tape.find("item"), std::span<const int32_t>(item));
  upload_numbers(tape, tape.find("label"), rating);
}

void Trainer::upload(const Batch& batch) {
  if (form_.users > 0) return upload_ratings(train_, batch);
  upload_samples(train_, x_of_, batch.x, batch.token);
  if (form_.pairs) train_.upload(target_of_, std::span<const int32_t>(batch.target));
  if (!form_.binary) return train_.upload(label_of_, std::span<const int32_t>(batch.label));
  upload_numbers(train_, label_of_, std::vector<float>(batch.label.begin(), batch.label.end()));
}

// Gathers the batches of an epoch: ahead of the step where that takes a while, in threads of its own.
class Trainer::Loader {
 public:
  Loader(const Trainer& trainer, const Dataset& data, const std::vector<int64_t>& order)
      : trainer_(trainer), data_(data), order_(order) {
    const auto bytes = static_cast<size_t>(trainer.form_.batch * trainer.form_.features) * sizeof(float);
    ahead_ = trainer.options_.augmentation || bytes >= kPrefetchedBytes;
  }
  // Of batch b, which follows the one before.
  const Batch& get(int64_t b, bool last) {
    if (!ahead_) {
      gather(b, now_);
      return now_;
    }
    if (!coming_.valid()) start(b);
    coming_.get();
    std::swap(now_, next_);
    if (!last) start(b + 1);
    return now_;
  }

 private:
  void start(int64_t b) {
    coming_ = std::async(std::launch::async, [this, b] { gather(b, next_); });
  }
  void gather(int64_t b, Batch& batch) const {
    const int64_t count = trainer_.form_.batch;
    trainer_.gather(data_, std::span(order_).subspan(static_cast<size_t>(b * count), static_cast<size_t>(count)),
                    trainer_.epochs_, batch);
  }
  const Trainer& trainer_;
  const Dataset& data_;
  const std::vector<int64_t>& order_;
  bool ahead_;
  Batch now_, next_;
  std::future<void> coming_;  // declared last: its destructor waits for the thread that writes next_
};

// --- an epoch --------------------------------------------------------------------------------------------------------

// The loss is read before the backward pass, so that a loss that is not finite changes no parameter. It is the loss
// without scale; a step whose scaled gradients overflow is left out by the optimiser and is no error.
double Trainer::forward_and_backward() {
  train_.begin_step();
  for (size_t p = 0; p <= loss_phase_; ++p) train_.run_phase(p);
  const double loss = train_.download(loss_of_)[0];
  ++steps_;
  if (!std::isfinite(loss)) return loss;
  for (size_t p = loss_phase_ + 1; p < std::min(optimiser_phase_, train_.phases().size()); ++p) train_.run_phase(p);
  return loss;
}

void Trainer::update() {
  if (gradient_work_)
    gradient_work_->update(optimiser_phase_);
  else
    for (size_t p = optimiser_phase_; p < train_.phases().size(); ++p) train_.run_phase(p);
  ++updates_;
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

double Trainer::epoch(const Dataset& data, const OnBatch& on_batch) {
  require_fitting(data);
  const int64_t group = options_.accumulate, batches = updates_of_epoch(data.size()) * group;
  if (data.size() < form_.batch) throw Error("{} samples are fewer than the batch of {}", data.size(), form_.batch);
  if (batches == 0)
    throw Error("{} samples are fewer than the {} batches of {} that make an update", data.size(), group, form_.batch);
  const std::vector<int64_t> order = shuffled(data.size(), (seed_ << 16) + static_cast<uint64_t>(++epochs_));
  Loader loader(*this, data, order);
  double sum = 0;
  context_->enter([&] {
    for (int64_t b = 0; b < batches; ++b) {
      upload(loader.get(b, b + 1 == batches));
      // Before the forward pass: a model may update its parameters there (recommender).
      if (schedule_ && b % group == 0) learning_rate(schedule_->at(updates_));
      if (gradient_work_ && b % group == 0) gradient_work_->begin();
      const double loss = forward_and_backward();
      if (!std::isfinite(loss))
        throw Error(
            "the loss is {} in step {} (epoch {}, batch {}), where {} is the first tensor that is not finite: a "
            "lower learning rate may help",
            std::isnan(loss) ? "NaN" : "infinite", steps_, epochs_, b + 1, first_non_finite());
      if (gradient_work_) gradient_work_->add();
      if ((b + 1) % group == 0) update();
      sum += loss;
      if (on_batch && !on_batch({b + 1, batches, sum / static_cast<double>(b + 1)}))
        throw TrainingStopped("stopped in epoch {} after batch {} of {}", epochs_, b + 1, batches);
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

Metrics Trainer::evaluate_ratings(const Dataset& data) {
  double sum = 0;
  context_->enter([&] {
    Batch batch;
    for (int64_t first = 0; first < data.size(); first += form_.batch) {
      std::vector<int64_t> samples(static_cast<size_t>(std::min(form_.batch, data.size() - first)));
      std::iota(samples.begin(), samples.end(), first);
      gather(data, samples, -1, batch);
      upload_ratings(evaluate_, batch);
      evaluate_.run();
      sum += evaluate_.download(evaluate_.find("loss"))[0] * static_cast<double>(form_.batch);  // those left out add 0
    }
  });
  const double mean = sum / std::max(1., static_cast<double>(data.size()));
  if (!std::isfinite(mean)) throw Error("the error of ratings is not finite (epoch {})", epochs_);
  Metrics metrics;
  metrics.loss = mean;
  metrics.rmse = std::sqrt(mean);
  return metrics;
}

Metrics Trainer::evaluate(const Dataset& data) {
  require_fitting(data);
  evaluate_.copy_state_from(train_);
  if (form_.users > 0) return evaluate_ratings(data);
  const int64_t width = form_.binary ? 1 : form_.classes;
  double loss = 0;
  int64_t labels = 0, correct = 0, found = 0, claimed = 0,
          right = 0;  // of binary decisions: labels of 1, predictions of 1, both
  context_->enter([&] {
    std::vector<int64_t> samples(static_cast<size_t>(form_.batch));
    Batch batch;
    for (int64_t first = 0; first < data.size(); first += form_.batch) {
      for (int64_t i = 0; i < form_.batch; ++i) samples[static_cast<size_t>(i)] = std::min(first + i, data.size() - 1);
      gather(data, samples, -1, batch);
      upload_samples(evaluate_, evaluated_x_of_, batch.x, batch.token);
      if (form_.pairs) evaluate_.upload(evaluated_target_of_, std::span<const int32_t>(batch.target));
      evaluate_.run();
      const std::vector<double> logits = evaluate_.download(logits_of_);
      if (!evaluate_.finite(logits_of_))
        throw Error("logits of samples {} to {} are not finite (epoch {}): a lower learning rate may help", first,
                    std::min(first + form_.batch, data.size()) - 1, epochs_);
      for (int64_t i = 0; i < std::min(form_.batch, data.size() - first) * form_.targets; ++i) {
        const std::span row(logits.data() + i * width, static_cast<size_t>(width));
        const int32_t label = data.label[static_cast<size_t>(first * form_.targets + i)];
        if (form_.pairs && is_filler(data, first * form_.targets + i)) continue;
        ++labels;
        const int64_t predicted = form_.binary ? row[0] > 0 : std::max_element(row.begin(), row.end()) - row.begin();
        correct += predicted == label;
        if (form_.binary) {
          found += label;
          claimed += predicted;
          right += predicted == 1 && label == 1;
          loss += std::max(row[0], 0.) - row[0] * label + std::log1p(std::exp(-std::abs(row[0])));
        } else {
          loss += log_sum_exp(row) - row[static_cast<size_t>(label)];
        }
      }
    }
  });
  const auto share = [](int64_t part, int64_t of) {
    return of > 0 ? static_cast<double>(part) / static_cast<double>(of) : 0;
  };
  Metrics metrics;
  metrics.accuracy = share(correct, labels);
  metrics.loss = loss / std::max(1., static_cast<double>(labels));
  if (form_.binary) {
    metrics.precision = share(right, claimed);
    metrics.recall = share(right, found);
    metrics.f1 = share(2 * right, claimed + found);
  }
  if (form_.label_for_each_token) metrics.perplexity = std::exp(metrics.loss);
  return metrics;
}

// Whether the label is one of those that only fill a pair's sequence up: not the first of them, which ends the answer.
bool Trainer::is_filler(const Dataset& data, int64_t label) const {
  const auto at = [&](int64_t i) { return data.label[static_cast<size_t>(i)]; };
  return label % form_.targets > 0 && at(label) == kFirstToken && at(label - 1) == kFirstToken;
}

}  // namespace duet
