// SPDX-License-Identifier: Apache-2.0
// duet train: a model learns on the chosen device.
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
  std::string
      data;  // folder with MNIST's or CIFAR-10's files, or a text, as the model takes them; empty: samples are drawn
  int64_t epochs = 3;
  double validation = 0.1;  // share of the training samples that only judges epochs
  int64_t patience = 0;     // epochs without a better validation accuracy after which training ends; 0: never
  std::string checkpoint;   // written after each better epoch; empty: none
  std::string resume;       // a checkpoint to go on from
  std::vector<std::string> attributes;  // of the model, name=value
  std::optional<int64_t> batch;         // none: the model's own
  std::optional<double> lr;
  std::string device = "cpu";
  std::optional<int> threads;  // of the CPU; none: all it has
  uint64_t seed = 1;
  std::vector<std::string> preferences;  // implementations in order; none: the device's usual ones
};

// 0 done, 77 no such device here or an op that nothing serves, with the reason on standard error. Throws Error.
int run_train(const TrainOptions& options);

void add_train(CLI::App& app);  // the subcommand; a status other than 0 leaves it as CLI::RuntimeError

}  // namespace duet
