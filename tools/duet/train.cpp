#include "tools/duet/train.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <thread>

#include "core/cpu_context.h"
#include "core/gpu.h"
#include "models/data/digits.h"
#include "models/data/idx.h"
#include "models/trainer.h"

namespace duet {
namespace {

constexpr int kUnsupported = 77;
constexpr int64_t kDrawnTraining = 8000, kDrawnTest = 2000;

std::unique_ptr<Context> open(const TrainOptions& options, std::string& reason) {
  if (options.device == "gpu") return open_gpu(reason);
  if (options.device != "cpu") throw Error("--device '{}' is not one of cpu gpu", options.device);
  return std::make_unique<CpuContext>(options.threads.value_or(static_cast<int>(std::thread::hardware_concurrency())));
}

// A misspelt name would only ever be passed over.
void expect_known(const Tape::Preferences& preferences) {
  for (const std::string& name : preferences) {
    bool known = false;
    for (const auto& [primitive, p] : primitives()) known = known || find_implementation(primitive, name);
    for (const GoldenLine& g : registry_golden()) known = known || g.implementation == name;
    if (!known) throw Error("--impl-preference '{}': no primitive has an implementation of this name", name);
  }
}

struct Split {
  Dataset training, test;
  std::string what;
};
Split load(const TrainOptions& options) {
  if (!options.data.empty()) return {read_mnist(options.data, true), read_mnist(options.data, false), options.data};
  // Two streams of one seed: no sample of the test is a sample of the training.
  return {draw_digits(kDrawnTraining, options.seed << 1), draw_digits(kDrawnTest, options.seed << 1 | 1),
          "drawn digits"};
}

void learn(const TrainOptions& options, const Model& model, Context& context) {
  expect_known(options.preferences);
  const Tape::Preferences preferences =
      options.preferences.empty() ? Tape::preferences_for(context.device()) : options.preferences;
  Trainer trainer(model, context, preferences, options.seed);
  if (options.lr) trainer.learning_rate(*options.lr);
  const Split data = load(options);
  fmt::print("{} {} on {}; {}: {} samples to train on, {} to test\n", model.name(), model.label(), context.describe(),
             data.what, data.training.size(), data.test.size());
  for (int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const double loss = trainer.epoch(data.training);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto samples = static_cast<double>(data.training.size() / trainer.batch() * trainer.batch());
    fmt::print("epoch {:2}  loss {:.4f}  test accuracy {:.2f} %  {:.2f} s  {:.0f} samples/s\n", epoch, loss,
               100 * trainer.accuracy(data.test), seconds, samples / std::max(seconds, 1e-9));
    std::fflush(stdout);
  }
}

}  // namespace

int run_train(const TrainOptions& options) {
  Model model = find_model(options.model);
  if (options.batch) model = model.with("batch", std::to_string(*options.batch));
  if (options.epochs < 1) throw Error("--epochs {}; 1 or more is allowed", options.epochs);
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
  CLI::App* train = app.add_subcommand("train", "train a model and print loss and test accuracy by epoch");
  train->add_option("model", options->model, "name of the model, such as mlp")->required();
  train->add_option("--data", options->data, "folder with MNIST's IDX files; without it digits are drawn");
  train->add_option("--epochs", options->epochs, "passes over the data")->capture_default_str();
  train->add_option("--batch", options->batch, "samples of a step");
  train->add_option("--lr", options->lr, "learning rate; the model's own reaches 95 % in 3 epochs");
  train->add_option("--device", options->device, "cpu or gpu")->capture_default_str();
  train->add_option("--threads", options->threads, "threads of the CPU; all by default");
  train->add_option("--seed", options->seed, "of initial parameters, dropout, order and drawn digits")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  train
      ->add_option("--impl-preference", options->preferences,
                   "implementations, the first that serves a primitive runs it")
      ->delimiter(',');
  train->callback([options] {
    if (const int status = run_train(*options)) throw CLI::RuntimeError(status);
  });
}

}  // namespace duet
