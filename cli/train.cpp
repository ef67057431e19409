// SPDX-License-Identifier: Apache-2.0
#include "cli/train.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <climits>
#include <cmath>
#include <functional>

#include "cli/exit_status.h"
#include "core/atomic_file.h"
#include "core/command_line.h"
#include "core/cpu_context.h"
#include "core/gpu.h"
#include "core/machine.h"
#include "models/data/cifar.h"
#include "models/data/digits.h"
#include "models/data/idx.h"
#include "models/data/images.h"
#include "models/data/points.h"
#include "models/data/reviews.h"
#include "models/data/text.h"
#include "models/trainer.h"

namespace duet {
namespace {

constexpr int64_t kDrawnTraining = 9000, kDrawnTest = 2000, kDrawnTokens = 300000;

std::unique_ptr<Context> open(const TrainOptions& options, std::string& reason) {
  if (options.device == "gpu") return open_gpu(reason);
  return std::make_unique<CpuContext>(options.threads.value_or(usable_threads()));
}

// Throws Error at a misspelt name, which the tape would ignore.
void require_known(const Tape::Preferences& preferences) {
  for (const std::string& name : preferences) {
    bool known = false;
    for (const auto& [op, known_op] : ops()) known = known || find_implementation(op, name);
    for (const GoldenLine& g : registry_golden()) known = known || g.implementation == name;
    if (!known) throw Error("--impl-preference '{}': no op has an implementation of this name", name);
  }
}

using Attributes = std::vector<std::pair<std::string, std::string>>;

// Where a model's own defaults, which are for timing a step, learn nothing in a few epochs of drawn samples. --attr,
// --batch and --lr change what stands here.
struct TrainingDefaults {
  std::string model;
  Attributes attributes;
  std::optional<double> learning_rate = {};
};
const TrainingDefaults* training_defaults(const std::string& model) {
  static const TrainingDefaults kAll[] = {
      {"bilstm", {{"batch", "64"}}, 3e-3},  // 512 makes 15 steps of an epoch: too few
      {"gpt2",                              // bytes as tokens, four layers: it learns in minutes
       {{"tokens", "64"},
        {"context", "64"},
        {"layers", "4"},
        {"heads", "4"},
        {"width", "128"},
        {"vocabulary", "256"},
        {"batch", "16"}},
       1e-3}};
  for (const TrainingDefaults& d : kAll)
    if (d.model == model) return &d;
  return nullptr;
}

Model chosen_model(const TrainOptions& options) {
  const Model& model = find_model(options.model == "imdb_bilstm" ? "bilstm" : options.model);
  const TrainingDefaults* defaults = training_defaults(model.name());
  Attributes all = defaults ? defaults->attributes : Attributes{};
  for (const std::string& a : options.attributes) {
    const size_t equals = a.find('=');
    if (equals == a.npos) throw Error("--attr '{}' does not read name=value", a);
    all.emplace_back(a.substr(0, equals), a.substr(equals + 1));
  }
  if (options.batch) all.emplace_back("batch", std::to_string(*options.batch));
  return model.with(all);
}

struct Split {
  Dataset training, validation, test;
  std::string source;  // for people: "drawn digits", or the folder
};

// Where samples with this number of features come from.
struct SampleSource {
  int64_t features;
  const char* drawn_name;
  Dataset (*draw)(int64_t count, uint64_t seed);
  Dataset (*read)(const std::string& folder, bool training);  // null: there is no reader of files
};
constexpr SampleSource kSources[] = {{kDigitPixels, "drawn digits", draw_digits, read_mnist},
                                     {kColours * kImagePixels, "drawn images", draw_images, read_cifar},
                                     {kPointFeatures, "drawn points", draw_points, nullptr}};

// Two streams of one seed, so that no test sample is also a training sample.
template <class Draw>
Split draw_split(uint64_t seed, const char* source, const Draw& draw) {
  return {draw(kDrawnTraining, seed << 1), {}, draw(kDrawnTest, seed << 1 | 1), source};
}

Split read_or_draw(const TrainOptions& options, const SampleForm& form) {
  const Error no_reader("--data {}: there is no reader of files for model {}", options.data, options.model);
  const int64_t features = form.features;
  if (form.label_for_each_token) {  // a language model: every token is predicted from those before it
    const int64_t vocabulary = form.classes;
    if (!options.data.empty()) {
      Text text = read_text(options.data, features, vocabulary);
      return {std::move(text.training), {}, std::move(text.test), options.data};
    }
    if (vocabulary < 256)
      throw Error("drawn text is bytes: a vocabulary of 256 is needed, the model has {}", vocabulary);
    const int64_t count = std::max<int64_t>(3, kDrawnTokens / features);
    return {draw_text(count, features, options.seed << 1),
            {},
            draw_text(std::max<int64_t>(1, count / 8), features, options.seed << 1 | 1),
            "drawn text"};
  }
  if (form.tokens) {
    if (!options.data.empty()) throw no_reader;
    return draw_split(options.seed, "drawn reviews",
                      [&](int64_t count, uint64_t seed) { return draw_reviews(count, features, seed); });
  }
  for (const SampleSource& source : kSources) {
    if (source.features != features) continue;
    if (options.data.empty()) return draw_split(options.seed, source.drawn_name, source.draw);
    if (!source.read) throw no_reader;
    return {source.read(options.data, true), {}, source.read(options.data, false), options.data};
  }
  throw Error("model {} takes {} features a sample, for which there are no data", options.model, features);
}

Split load(const TrainOptions& options, const SampleForm& form) {
  Split all = read_or_draw(options, form);
  all.validation = split_off(all.training, options.validation, options.seed);
  if (all.training.size() < form.batch)
    throw Error("{} samples are fewer than the batch of {}", all.training.size(), form.batch);
  return all;
}

// Trains epoch by epoch, writes a checkpoint after each better one, and stops as --epochs and --patience say.
class TrainingLoop {
 public:
  TrainingLoop(const TrainOptions& options, Trainer& trainer, const Split& data)
      : options_(options),
        trainer_(trainer),
        data_(data),
        best_accuracy_(trainer.accuracy(data.validation)),
        best_checkpoint_(trainer.checkpoint()) {}

  void run() {
    int64_t epochs_without_better = 0;
    while (trainer_.epochs() < options_.epochs && (options_.patience == 0 || epochs_without_better < options_.patience))
      epochs_without_better = train_epoch() ? 0 : epochs_without_better + 1;
    if (trainer_.epochs() < options_.epochs) fmt::print("no better for {} epoch(s): stopped\n", epochs_without_better);
    trainer_.restore(best_checkpoint_);
    if (!options_.checkpoint.empty() && checkpoint_epoch_ == 0) {
      write_checkpoint(options_.checkpoint, best_checkpoint_);
      fmt::print("no epoch was better than the parameters of epoch {}, which {} holds\n", trainer_.epochs(),
                 options_.checkpoint);
    }
    fmt::print("test accuracy {:.2f} % with the parameters of epoch {}\n", 100 * trainer_.accuracy(data_.test),
               trainer_.epochs());
  }

 private:
  // Returns whether the epoch was the best so far.
  bool train_epoch() {
    const auto start = std::chrono::steady_clock::now();
    double loss = 0;
    double seconds = 0;
    double accuracy = 0;
    naming_the_checkpoint([&] {
      loss = trainer_.epoch(data_.training);
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      accuracy = trainer_.accuracy(data_.validation);
    });
    const bool better = accuracy > best_accuracy_;
    const auto samples = static_cast<double>(data_.training.size() / trainer_.form().batch * trainer_.form().batch);
    const std::string perplexity =
        trainer_.form().label_for_each_token ? fmt::format("  perplexity {:.2f}", std::exp(loss)) : "";
    fmt::print("epoch {:2}  loss {:.4f}{}  validation accuracy {:.2f} %  {:.2f} s  {:.0f} {}/s\n", trainer_.epochs(),
               loss, perplexity, 100 * accuracy, seconds,
               samples * static_cast<double>(trainer_.form().targets) / std::max(seconds, 1e-9),
               trainer_.form().label_for_each_token ? "tokens" : "samples");
    std::fflush(stdout);
    if (!better) return false;
    best_accuracy_ = accuracy;
    best_checkpoint_ = trainer_.checkpoint();
    if (!options_.checkpoint.empty()) {
      write_checkpoint(options_.checkpoint, best_checkpoint_);
      checkpoint_epoch_ = trainer_.epochs();
    }
    return true;
  }
  // Adds to an error which epoch the checkpoint file holds.
  void naming_the_checkpoint(const std::function<void()>& train) {
    try {
      train();
    } catch (const Error& e) {
      if (checkpoint_epoch_ == 0) throw;
      throw Error("{}; {} holds epoch {}", e.what(), options_.checkpoint, checkpoint_epoch_);
    }
  }

  const TrainOptions& options_;
  Trainer& trainer_;
  const Split& data_;
  double best_accuracy_;
  Checkpoint best_checkpoint_;
  int64_t checkpoint_epoch_ = 0;  // whose parameters the checkpoint file holds; 0: not yet written
};

void train_model(const TrainOptions& options, const Model& model, Context& context) {
  require_known(options.preferences);
  if (!options.checkpoint.empty())
    AtomicFile(options.checkpoint);  // throws now, not after an epoch, where the folder cannot be written
  const Tape::Preferences preferences =
      options.preferences.empty() ? Tape::preferences_for(context.device()) : options.preferences;
  const Split data = load(options, sample_form(model, context));  // before the trainer, which takes long to plan
  Trainer trainer(model, context, preferences, options.seed);
  if (!options.resume.empty()) try {
      trainer.restore(read_checkpoint(options.resume));
    } catch (const Error& e) {
      throw Error("--resume {}: {}", options.resume, e.what());
    }
  if (trainer.epochs() >= options.epochs)
    throw Error("--epochs {}: the checkpoint has {} already", options.epochs, trainer.epochs());
  const TrainingDefaults* defaults = training_defaults(model.name());
  if (options.learning_rate)
    trainer.learning_rate(*options.learning_rate);
  else if (defaults && defaults->learning_rate && options.resume.empty())
    trainer.learning_rate(*defaults->learning_rate);
  fmt::print("{} {} on {}; {}: {} samples to train on, {} to validate, {} to test\n", model.name(), model.label(),
             context.describe(), data.source, data.training.size(), data.validation.size(), data.test.size());
  TrainingLoop(options, trainer, data).run();
}

}  // namespace

int run_train(const TrainOptions& options) {
  const Model model = chosen_model(options);
  // Not by CLI::Range, which includes its ends and lets NaN pass.
  if (!(options.validation > 0 && options.validation < 1))
    throw Error("--validation {}; a fraction above 0 and below 1 is allowed", options.validation);
  if (options.learning_rate && !(*options.learning_rate > 0 && std::isfinite(*options.learning_rate)))
    throw Error("--lr {}; a finite number above 0 is allowed", *options.learning_rate);
  std::string reason;
  const std::unique_ptr<Context> context = open(options, reason);
  try {
    if (context) {
      train_model(options, model, *context);
      return 0;
    }
  } catch (const NotServed& e) {
    reason = e.what();
  }
  fmt::print(stderr, "duet train: --device {}: {}\n", options.device, one_line(reason));
  return kUnsupported;
}

void add_train(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  const auto whole_number = [](int64_t min, int64_t max = INT64_MAX) -> CLI::Validator {
    return {[min, max](std::string& text) { return check_whole_number(text, min, max); }, "INT"};
  };
  CLI::App* train =
      app.add_subcommand("train", "train a model; print loss and validation accuracy by epoch, then test accuracy");
  train
      ->add_option("model", options->model,
                   "mlp, mnist_cnn (28x28 digits), lenet, cifar_cnn (32x32 colour images), imdb_bilstm (reviews), toy, "
                   "or gpt2 (text; a small one of 4 layers, which --attr changes)")
      ->required();
  train->add_option(
      "--data", options->data,
      "folder with MNIST's IDX files or CIFAR-10's binary files, or a text file (.bin: tokens of 16 bits), depending "
      "on the model; without it samples are drawn");
  train->add_option("--epochs", options->epochs, "passes over the data, including those of a resumed checkpoint")
      ->transform(whole_number(1))
      ->capture_default_str();
  train
      ->add_option("--validation", options->validation,
                   "fraction of the training samples held out to validate each epoch")
      ->capture_default_str();
  train
      ->add_option("--patience", options->patience,
                   "stop after so many epochs without a better validation accuracy; 0: never")
      ->transform(whole_number(0))
      ->capture_default_str();
  train->add_option(
      "--checkpoint", options->checkpoint,
      "file (safetensors) for the parameters and the optimiser's state, written after each better epoch, or at the end "
      "if no epoch was better");
  train->add_option("--resume", options->resume, "checkpoint to continue from, of the same model and seed");
  train->add_option("--attr", options->attributes, "attribute=value of the model, repeatable")->expected(1)->take_all();
  train->add_option("--batch", options->batch, "samples in a step")->transform(whole_number(1));
  train->add_option("--lr", options->learning_rate, "learning rate; by default that of the checkpoint or of the model");
  train->add_option("--device", options->device, "cpu or gpu")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->capture_default_str();
  train->add_option("--threads", options->threads, "number of CPU threads; all by default")
      ->transform(whole_number(1, INT_MAX));
  train
      ->add_option("--seed", options->seed,
                   "seed of initial parameters, dropout, order of samples, validation samples and drawn samples")
      ->capture_default_str()
      ->transform(whole_number(0));
  train
      ->add_option("--impl-preference", options->preferences,
                   "comma-separated implementations; the first that serves an op runs it")
      ->delimiter(',');
  train->callback([options] {
    if (const int status = run_train(*options)) throw CLI::RuntimeError(status);
  });
}

}  // namespace duet
