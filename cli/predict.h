// SPDX-License-Identifier: Apache-2.0
// duet predict: serves a checkpoint of duet train: classes of images, digits and other samples, items for users, or the
// continuation of a text. Called by main.cpp.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace duet {

struct PredictOptions {
  std::string model, checkpoint;
  std::vector<std::string> inputs;      // image files or .npy, or a file of tokens
  std::vector<int64_t> indices;         // of samples of the test
  std::vector<int64_t> users;           // of a model of ratings
  std::vector<std::string> attributes;  // of the inference, name=value
  std::string data;                     // where the test comes from, or the ratings; empty: drawn
  std::optional<std::string> task;      // of drawn pairs; without a value, told by the checkpoint
  std::optional<std::string> prompt;    // of a language model, or the source of a pair
  int64_t tokens = 100;                 // that follow the prompt
  double temperature = 0;               // 0: always the most likely token
  uint64_t seed = 1;                    // of the tokens that are drawn
  int64_t top = 5;
  bool json = false;
  std::string device = "cpu";
  std::optional<int> threads;
};

// Returns 0, or kUnsupported as run_train(). Throws Error on wrong usage.
int run_predict(const PredictOptions& options);

void add_predict(CLI::App& app);

}  // namespace duet
