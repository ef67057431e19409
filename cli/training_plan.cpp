// SPDX-License-Identifier: Apache-2.0
#include "cli/training_plan.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/registry.h"
#include "models/choice.h"

namespace duet {
namespace {

// Keys of a checkpoint's metadata.
constexpr const char *kRateKey = "learning_rate", *kScheduleKey = "schedule", *kWarmUpKey = "warm_up";
constexpr const char *kAccumulateKey = "accumulate", *kClipKey = "clip", *kAugmentKey = "augment";
constexpr const char *kEpochsKey = "epochs_planned", *kPreferenceKey = "impl_preference";
constexpr const char* kValidationKey = "validation";

constexpr double kUsualValidation = 0.1;  // of the training samples

// Throws Error at a misspelt name, which the tape would ignore.
void require_known(const std::string& where, const Tape::Preferences& preferences) {
  for (const std::string& name : preferences) {
    bool known = false;
    for (const auto& [op, known_op] : ops()) known = known || find_implementation(op, name);
    for (const GoldenLine& g : registry_golden()) known = known || g.implementation == name;
    if (!known) throw Error("{} '{}': no op has an implementation of this name", where, name);
  }
}

// A number or word of the metadata; nothing where it is missing.
template <class T>
std::optional<T> stored(const Checkpoint& checkpoint, const char* key) {
  const auto found = checkpoint.metadata.find(key);
  if (found == checkpoint.metadata.end()) return std::nullopt;
  T value{};
  if (!CLI::detail::lexical_cast(found->second, value))
    throw Error("the checkpoint's metadata {} is '{}', which is no number", key, found->second);
  return value;
}

}  // namespace

bool is_positive_f32(double value) {  // not by CLI::Range: NaN passes there
  const auto rounded = static_cast<float>(value);
  return rounded > 0 && std::isfinite(rounded);
}

TrainingPlan plan_of(const TrainOptions& options, const TrainingDefaults& defaults, const Checkpoint* resumed) {
  TrainingPlan plan{.learning_rate = options.learning_rate};
  const Checkpoint none;
  const Checkpoint& from = resumed ? *resumed : none;
  if (!plan.learning_rate) plan.learning_rate = stored<double>(from, kRateKey);
  if (plan.learning_rate && !is_positive_f32(*plan.learning_rate))
    throw Error("the checkpoint's metadata {} is {}; a finite number above 0 is allowed (in f32)", kRateKey,
                *plan.learning_rate);
  if (!plan.learning_rate && !resumed) plan.learning_rate = defaults.learning_rate;
  const std::string own = resumed ? name_of(Schedule::Kind::constant) : name_of(defaults.schedule);
  plan.schedule = parse_schedule(options.schedule.value_or(stored<std::string>(from, kScheduleKey).value_or(own)));
  // A schedule that is asked for has no warm-up but the one that is asked for.
  const int64_t usual = resumed || options.schedule ? 0 : defaults.warm_up;
  plan.warm_up = options.warm_up.value_or(options.schedule ? 0 : stored<int64_t>(from, kWarmUpKey).value_or(usual));
  plan.accumulate = options.accumulate.value_or(stored<int64_t>(from, kAccumulateKey).value_or(1));
  plan.clip = options.clip.value_or(stored<double>(from, kClipKey).value_or(0));
  plan.augment = options.augment.value_or(stored<int64_t>(from, kAugmentKey).value_or(0) != 0);
  plan.task = options.task.value_or(stored<std::string>(from, kTaskKey).value_or("reverse"));
  plan.validation = options.validation.value_or(stored<double>(from, kValidationKey).value_or(kUsualValidation));
  plan.epochs = options.epochs.value_or(stored<int64_t>(from, kEpochsKey).value_or(kUsualEpochs));
  if (plan.epochs < 1 || plan.epochs > INT_MAX)
    throw Error("the checkpoint's metadata {} is {}; 1 to {} is allowed", kEpochsKey, plan.epochs, INT_MAX);
  plan.data = stored<std::string>(from, kDataKey).value_or("");
  if (options.data) plan.data = *options.data;
  plan.preferences = options.preferences;
  require_known("--impl-preference", plan.preferences);
  const std::string before = stored<std::string>(from, kPreferenceKey).value_or("");
  if (plan.preferences.empty() && !options.choose && !before.empty()) {
    plan.preferences = CLI::detail::split(before, ',');
    require_known(fmt::format("the checkpoint's metadata {}", kPreferenceKey), plan.preferences);
  }
  if (!(plan.validation > 0 && plan.validation < 1))  // not by CLI::Range, which includes its ends and lets NaN pass
    throw Error("--validation {}; a fraction above 0 and below 1 is allowed", plan.validation);
  if (plan.accumulate < 1 || plan.warm_up < 0 || !(plan.clip >= 0))
    throw Error("the checkpoint's metadata ask for {} batches an update, a warm-up of {} and a norm of {}",
                plan.accumulate, plan.warm_up, plan.clip);
  return plan;
}

void describe(const TrainingPlan& plan, const Dataset& data, bool pairs, Checkpoint& checkpoint) {
  auto& metadata = checkpoint.metadata;
  if (plan.learning_rate) metadata[kRateKey] = fmt::format("{}", *plan.learning_rate);
  if (plan.schedule != Schedule::Kind::constant) metadata[kScheduleKey] = name_of(plan.schedule);
  if (plan.warm_up > 0) metadata[kWarmUpKey] = std::to_string(plan.warm_up);
  if (plan.accumulate > 1) metadata[kAccumulateKey] = std::to_string(plan.accumulate);
  if (plan.clip > 0) metadata[kClipKey] = fmt::format("{}", plan.clip);
  if (plan.augment) metadata[kAugmentKey] = "1";
  if (pairs) metadata[kTaskKey] = plan.task;
  metadata[kValidationKey] = fmt::format("{}", plan.validation);
  metadata[kEpochsKey] = std::to_string(plan.epochs);
  if (!plan.data.empty()) metadata[kDataKey] = std::filesystem::absolute(plan.data).string();
  if (!plan.preferences.empty()) metadata[kPreferenceKey] = fmt::format("{}", fmt::join(plan.preferences, ","));
  if (!data.class_names.empty()) metadata[kClassesKey] = nlohmann::json(data.class_names).dump();
}

}  // namespace duet
