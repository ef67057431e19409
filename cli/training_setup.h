// SPDX-License-Identifier: Apache-2.0
// What `duet train` and `duet predict` share: the model under its name on the command line, the defaults with which it
// learns, and its samples, from files or drawn.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/context.h"
#include "models/data/dataset.h"
#include "models/data/pairs.h"
#include "models/data/ratings.h"
#include "models/model.h"
#include "models/schedule.h"
#include "models/trainer.h"

namespace duet {

using Attributes = std::vector<std::pair<std::string, std::string>>;

// Where a model's own defaults, which are for timing a step, learn little in a few epochs of drawn samples. Options of
// the command line change what stands here.
struct TrainingDefaults {
  std::string model;
  Attributes attributes = {};
  std::optional<double> learning_rate = {};
  Schedule::Kind schedule = Schedule::Kind::constant;
  int64_t warm_up = 0;     // updates
  int64_t samples = 9000;  // drawn ones to train on, with those to validate
};
const TrainingDefaults& training_defaults(const std::string& model);

const Model& model_by_name(const std::string& name);                 // also of other names, such as imdb_bilstm
Attributes parse_attributes(const std::vector<std::string>& words);  // name=value; throws Error
std::unique_ptr<Context> open_device(const std::string& device, std::optional<int> threads, std::string& reason);

struct DataOptions {
  std::string model;  // as the user calls it, for messages
  std::string data;   // folder or file; empty: samples are drawn
  PairTask task = PairTask::reverse;
  uint64_t seed = 1;
  int64_t drawn = 9000;  // samples to train on; fewer to test
};
struct Split {
  Dataset training, validation, test;
  std::string source;  // for people: "drawn digits", or the folder
};
// The ratings of a file; throws Error where it has more users or items than the model.
Ratings ratings_for(const SampleForm& form, const std::string& path);

// The training and the test half; nothing is held out to validate. Throws Error where there are no data for the model.
Split read_or_draw(const DataOptions& options, const SampleForm& form);

}  // namespace duet
