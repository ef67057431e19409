// SPDX-License-Identifier: Apache-2.0
#include "cli/train.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "core/cpu_context.h"
#include "core/gpu.h"
#include "core/atomic_file.h"
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

constexpr int kUnsupported = 77;
constexpr int64_t kDrawnTraining = 9000, kDrawnTest = 2000, kDrawnTokens = 300000;

std::unique_ptr<Context> open(const TrainOptions& options, std::string& reason) {
  if (options.device == "gpu") return open_gpu(reason);
  if (options.device != "cpu") throw Error("--device '{}' is not one of cpu gpu", options.device);
  return std::make_unique<CpuContext>(options.threads.value_or(static_cast<int>(std::thread::hardware_concurrency())));
}

// A misspelt name would only ever be passed over.
void expect_known(const Tape::Preferences& preferences) {
  for (const std::string& name : preferences) {
    bool known = false;
    for (const auto& [op, known_op] : ops()) known = known || find_implementation(op, name);
    for (const GoldenLine& g : registry_golden()) known = known || g.implementation == name;
    if (!known) throw Error("--impl-preference '{}': no op has an implementation of this name", name);
  }
}

constexpr std::pair<const char*, const char*> kSmallGpt2[] = {
    {"tokens", "64"}, {"context", "64"},     {"layers", "4"}, {"heads", "4"},
    {"width", "128"}, {"vocabulary", "256"}, {"batch", "16"}};

constexpr double kSmallGpt2Rate = 1e-3;
bool small_gpt2(const TrainOptions& options) { return options.model == "gpt2" && options.attributes.empty(); }

struct Split {
  Dataset training, validation, test;
  std::string what;
};

// What there is for models that take samples of this size.
struct Source {
  int64_t features;
  const char* drawn;
  Dataset (*draw)(int64_t count, uint64_t seed);
  Dataset (*read)(const std::string& folder, bool training);  // null: no such files
};
constexpr Source kSources[] = {{kDigitPixels, "drawn digits", draw_digits, read_mnist},
                               {kColours * kImagePixels, "drawn images", draw_images, read_cifar},
                               {kPointFeatures, "drawn points", draw_points, nullptr}};

// Two streams of one seed: no sample of the test is a sample of the training.
template <class Draw>
Split drawn(uint64_t seed, const char* what, const Draw& draw) {
  return {draw(kDrawnTraining, seed << 1), {}, draw(kDrawnTest, seed << 1 | 1), what};
}

Split whole(const TrainOptions& options, const Trainer& trainer) {
  const Error none("--data {}: there is no reader of files for model {}", options.data, options.model);
  const int64_t features = trainer.features();
  if (trainer.label_for_each_token()) {  // a language model: every token is told from those before it
    const int64_t vocabulary = trainer.classes();
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
  if (trainer.takes_tokens()) {
    if (!options.data.empty()) throw none;
    return drawn(options.seed, "drawn reviews",
                 [&](int64_t count, uint64_t seed) { return draw_reviews(count, features, seed); });
  }
  for (const Source& source : kSources) {
    if (source.features != features) continue;
    if (options.data.empty()) return drawn(options.seed, source.drawn, source.draw);
    if (!source.read) throw none;
    return {source.read(options.data, true), {}, source.read(options.data, false), options.data};
  }
  throw Error("model {} takes {} features a sample, and there are no such data", options.model, features);
}

Split load(const TrainOptions& options, const Trainer& trainer) {
  Split all = whole(options, trainer);
  all.validation = split_off(all.training, options.validation, options.seed);
  return all;
}

class Learning {
 public:
  Learning(const TrainOptions& options, Trainer& trainer, const Split& data)
      : options_(options),
        trainer_(trainer),
        data_(data),
        best_(trainer.accuracy(data.validation)),
        kept_(trainer.checkpoint()) {}

  void run() {
    int64_t waited = 0;
    while (trainer_.epochs() < options_.epochs && (options_.patience == 0 || waited < options_.patience))
      waited = epoch() ? 0 : waited + 1;
    if (trainer_.epochs() < options_.epochs) fmt::print("no better for {} epoch(s): stopped\n", waited);
    trainer_.restore(kept_);
    if (!options_.checkpoint.empty() && written_ == 0) {
      write_checkpoint(options_.checkpoint, kept_);
      fmt::print("no epoch was better than the parameters of epoch {}, which {} holds\n", trainer_.epochs(),
                 options_.checkpoint);
    }
    fmt::print("test accuracy {:.2f} % with the parameters of epoch {}\n", 100 * trainer_.accuracy(data_.test),
               trainer_.epochs());
  }

 private:
  // Whether it was the best so far.
  bool epoch() {
    const auto start = std::chrono::steady_clock::now();
    double loss = 0, seconds = 0, accuracy = 0;
    guarded([&] {
      loss = trainer_.epoch(data_.training);
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      accuracy = trainer_.accuracy(data_.validation);
    });
    const bool better = accuracy > best_;
    const auto samples = static_cast<double>(data_.training.size() / trainer_.batch() * trainer_.batch());
    const std::string perplexity =
        trainer_.label_for_each_token() ? fmt::format("  perplexity {:.2f}", std::exp(loss)) : "";
    fmt::print("epoch {:2}  loss {:.4f}{}  validation accuracy {:.2f} %  {:.2f} s  {:.0f} {}/s\n", trainer_.epochs(),
               loss, perplexity, 100 * accuracy, seconds,
               samples * static_cast<double>(trainer_.targets()) / std::max(seconds, 1e-9),
               trainer_.label_for_each_token() ? "tokens" : "samples");
    std::fflush(stdout);
    if (!better) return false;
    best_ = accuracy;
    kept_ = trainer_.checkpoint();
    if (!options_.checkpoint.empty()) {
      write_checkpoint(options_.checkpoint, kept_);
      written_ = trainer_.epochs();
    }
    return true;
  }
  // An error says which epoch is safe.
  void guarded(const std::function<void()>& learning) {
    try {
      learning();
    } catch (const Error& e) {
      if (written_ == 0) throw;
      throw Error("{}; {} holds epoch {}", e.what(), options_.checkpoint, written_);
    }
  }

  const TrainOptions& options_;
  Trainer& trainer_;
  const Split& data_;
  double best_;
  Checkpoint kept_;
  int64_t written_ = 0;
};

void learn(const TrainOptions& options, const Model& model, Context& context) {
  expect_known(options.preferences);
  if (!options.checkpoint.empty())
    AtomicFile(options.checkpoint);  // a folder that is not writable, now rather than later
  const Tape::Preferences preferences =
      options.preferences.empty() ? Tape::preferences_for(context.device()) : options.preferences;
  Trainer trainer(model, context, preferences, options.seed);
  if (!options.resume.empty()) try {
      trainer.restore(read_checkpoint(options.resume));
    } catch (const Error& e) {
      throw Error("--resume {}: {}", options.resume, e.what());
    }
  if (trainer.epochs() >= options.epochs)
    throw Error("--epochs {}: the checkpoint has {} already", options.epochs, trainer.epochs());
  if (options.lr)
    trainer.learning_rate(*options.lr);
  else if (small_gpt2(options) && options.resume.empty())
    trainer.learning_rate(kSmallGpt2Rate);
  const Split data = load(options, trainer);
  if (data.training.size() < trainer.batch())
    throw Error("{} samples are fewer than the batch of {}", data.training.size(), trainer.batch());
  fmt::print("{} {} on {}; {}: {} samples to train on, {} to validate, {} to test\n", model.name(), model.label(),
             context.describe(), data.what, data.training.size(), data.validation.size(), data.test.size());
  Learning(options, trainer, data).run();
}

}  // namespace

int run_train(const TrainOptions& options) {
  Model model = find_model(options.model == "imdb_bilstm" ? "bilstm" : options.model);
  if (small_gpt2(options))  // one that learns in minutes: bytes, four layers
    for (const auto& [name, value] : kSmallGpt2) model = model.with(name, value);
  for (const std::string& a : options.attributes) {
    const size_t equals = a.find('=');
    if (equals == a.npos) throw Error("--attr '{}' does not read name=value", a);
    model = model.with(a.substr(0, equals), a.substr(equals + 1));
  }
  if (options.batch) model = model.with("batch", std::to_string(*options.batch));
  if (options.epochs < 1) throw Error("--epochs {}; 1 or more is allowed", options.epochs);
  if (options.patience < 0) throw Error("--patience {}; 0 or more is allowed", options.patience);
  if (!(options.validation > 0 && options.validation < 1))
    throw Error("--validation {}; a share above 0 and below 1 is allowed", options.validation);
  if (options.lr && !(*options.lr > 0 && std::isfinite(*options.lr)))
    throw Error("--lr {}; a finite number above 0 is allowed", *options.lr);
  std::string reason;
  const std::unique_ptr<Context> context = open(options, reason);
  try {
    if (context) {
      learn(options, model, *context);
      return 0;
    }
  } catch (const NotServed& e) {
    reason = e.what();
  }
  fmt::print(stderr, "duet train: --device {}: {}\n", options.device, reason);
  return kUnsupported;
}

void add_train(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* train =
      app.add_subcommand("train", "train a model; print loss and validation accuracy by epoch, then test accuracy");
  train
      ->add_option("model", options->model,
                   "mlp, mnist_cnn (28x28 digits), lenet, cifar_cnn (32x32 colour images), imdb_bilstm (reviews), gpt2 "
                   "(text; a small "
                   "one unless --attr is given) or toy")
      ->required();
  train->add_option(
      "--data", options->data,
      "folder with MNIST's IDX files or CIFAR-10's binary files, or a text (.bin: tokens of 16 bits), as the model "
      "takes them; without it samples are drawn");
  train->add_option("--epochs", options->epochs, "passes over the data, those of a checkpoint included")
      ->capture_default_str();
  train->add_option("--validation", options->validation, "share of the training samples that only judges epochs")
      ->capture_default_str();
  train
      ->add_option("--patience", options->patience,
                   "stop after so many epochs without a better validation accuracy; 0: never")
      ->capture_default_str();
  train->add_option(
      "--checkpoint", options->checkpoint,
      "file (safetensors) for parameters and optimiser, written after each better epoch, at the end if there was none");
  train->add_option("--resume", options->resume, "checkpoint to go on from, of the same model and seed");
  train->add_option("--attr", options->attributes, "attribute=value of the model")->expected(1)->take_all();
  train->add_option("--batch", options->batch, "samples of a step");
  train->add_option("--lr", options->lr, "learning rate, the model's own by default; a checkpoint brings its own");
  train->add_option("--device", options->device, "cpu or gpu")->capture_default_str();
  train->add_option("--threads", options->threads, "threads of the CPU; all by default");
  train->add_option("--seed", options->seed, "of initial parameters, dropout, order, validation and drawn samples")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  train->add_option("--impl-preference", options->preferences, "implementations, the first that serves an op runs it")
      ->delimiter(',');
  train->callback([options] {
    if (const int status = run_train(*options)) throw CLI::RuntimeError(status);
  });
}

}  // namespace duet
