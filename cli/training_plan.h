// SPDX-License-Identifier: Apache-2.0
// How a training goes: what the options, a checkpoint and the model's defaults say together, and what of it a
// checkpoint keeps, so that --resume goes on alike.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cli/train.h"
#include "cli/training_setup.h"
#include "models/checkpoint.h"
#include "models/schedule.h"
#include "models/tape.h"

namespace duet {

// Keys of a checkpoint's metadata that `duet predict` reads, too.
inline constexpr const char *kClassesKey = "classes", *kTaskKey = "task", *kDataKey = "data";

inline constexpr int64_t kUsualEpochs = 3;

// What the options, the resumed checkpoint and the model's defaults say together, in this order.
struct TrainingPlan {
  std::optional<double> learning_rate;  // without a value: what the tape or the checkpoint holds
  Schedule::Kind schedule = Schedule::Kind::constant;
  int64_t warm_up = 0, accumulate = 1, epochs = kUsualEpochs;
  double clip = 0, validation = 0;
  bool augment = false;
  std::string task = {};               // of drawn pairs
  std::string data = {};               // a path, which checkpoints name from the root; empty: samples are drawn
  Tape::Preferences preferences = {};  // empty: the device's
};

// Throws Error for metadata and options that make no sense.
TrainingPlan plan_of(const TrainOptions& options, const TrainingDefaults& defaults, const Checkpoint* resumed);
void describe(const TrainingPlan& plan, const Dataset& data, bool pairs, Checkpoint& checkpoint);
bool is_positive_f32(double value);  // as it is rounded to f32: finite and above 0

}  // namespace duet
