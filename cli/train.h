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
  // A folder with MNIST's, CIFAR-10's or other images, or a text, whichever the model takes. Empty: samples are drawn.
  // Without a value the checkpoint's, else drawn ones.
  std::optional<std::string> data;
  std::optional<std::string> task;  // of drawn pairs; without a value the checkpoint's, else reverse
  std::optional<int64_t> epochs;    // without a value the checkpoint's, else 3
  // Fraction of the training samples that is held out to validate each epoch; without a value the checkpoint's, else a
  // tenth.
  std::optional<double> validation;
  int64_t patience = 0;    // training stops after so many epochs that are no better in validation; 0: never
  std::string checkpoint;  // file written after each better epoch; empty: none
  std::string resume;      // checkpoint to continue from
  std::string init;        // checkpoint whose parameters the training begins with
  std::string teacher;     // checkpoint with the frozen teacher of a model that has one; empty: its initial values
  std::string log;         // file for a line of each epoch, .csv or .jsonl; empty: none
  std::vector<std::string> attributes;  // of the model, name=value
  std::optional<int64_t> batch;         // without a value, the checkpoint's, else the model's own
  // Without a value: the checkpoint's, else the model's.
  std::optional<double> learning_rate;
  std::optional<std::string> schedule;
  std::optional<int64_t> warm_up;     // updates
  std::optional<int64_t> accumulate;  // batches of an update
  std::optional<double> clip;         // norm of the gradients
  std::optional<bool> augment;        // images
  std::optional<std::string> choose;  // order or measured; without a value as in the checkpoint, else order
  std::string device = "cpu";
  std::optional<int> threads;  // of the CPU; without a value, all it has
  uint64_t seed = 1;
  std::vector<std::string> preferences;  // implementations in order of preference; empty: the defaults of the device
};

// Returns 0; kUnsupported, with the reason on standard error, where there is no such device here or no implementation
// serves an op of the model; kInterrupted after SIGINT, when the checkpoint is written. Throws Error on wrong usage.
int run_train(const TrainOptions& options);

// Adds the subcommand. A status other than 0 leaves app.parse() as CLI::RuntimeError.
void add_train(CLI::App& app);

}  // namespace duet
