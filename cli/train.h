// SPDX-License-Identifier: Apache-2.0
// duet train: trains a model on the chosen device, on the samples of files or on drawn ones. Called by main.cpp.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace duet {

struct TrainOptions {
  std::string model;
  // A folder with MNIST's or CIFAR-10's files, or a text, whichever the model takes. Empty: samples are drawn.
  std::string data;
  int64_t epochs = 3;
  double validation = 0.1;  // fraction of the training samples that is held out to validate each epoch
  int64_t patience = 0;     // training stops after so many epochs without a better validation accuracy; 0: never
  std::string checkpoint;   // file written after each better epoch; empty: none
  std::string resume;       // checkpoint to continue from
  std::vector<std::string> attributes;  // of the model, name=value
  std::optional<int64_t> batch;         // without a value, the model's own
  std::optional<double> learning_rate;
  std::string device = "cpu";
  std::optional<int> threads;  // of the CPU; without a value, all it has
  uint64_t seed = 1;
  std::vector<std::string> preferences;  // implementations in order of preference; empty: the defaults of the device
};

// Returns 0, or kUnsupported, with the reason on standard error, where there is no such device here or no
// implementation serves an op of the model. Throws Error on wrong usage.
int run_train(const TrainOptions& options);

// Adds the subcommand. A status other than 0 leaves app.parse() as CLI::RuntimeError.
void add_train(CLI::App& app);

}  // namespace duet
