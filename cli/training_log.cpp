// SPDX-License-Identifier: Apache-2.0
#include "cli/training_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/error.h"

namespace duet {
namespace {

constexpr double kProgress_s = 0.1;  // between two states of the progress line

std::vector<std::pair<std::string, double>> fields_of(const EpochRecord& r) {
  std::vector<std::pair<std::string, double>> all{{"epoch", static_cast<double>(r.epoch)},
                                                  {"updates", static_cast<double>(r.updates)},
                                                  {"loss", r.loss},
                                                  {"validation_loss", r.validation.loss}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) all.emplace_back(name, *value);
  };
  if (!r.validation.rmse) all.emplace_back("validation_accuracy", r.validation.accuracy);
  add("validation_rmse", r.validation.rmse);
  add("validation_precision", r.validation.precision);
  add("validation_recall", r.validation.recall);
  add("validation_f1", r.validation.f1);
  add("validation_perplexity", r.validation.perplexity);
  for (const auto& [name, value] :
       {std::pair("learning_rate", r.learning_rate), {"seconds", r.seconds}, {"samples_per_s", r.per_s}})
    all.emplace_back(name, value);
  return all;
}

}  // namespace

std::string text_of(const Metrics& m) {
  if (m.rmse) return fmt::format("RMSE {:.4f}", *m.rmse);
  std::string text = fmt::format("accuracy {:.2f} %", 100 * m.accuracy);
  if (m.perplexity) text += fmt::format("  perplexity {:.2f}", *m.perplexity);
  if (m.f1) text += fmt::format("  precision {:.3f} recall {:.3f} F1 {:.3f}", *m.precision, *m.recall, *m.f1);
  return text;
}

TrainingLog::TrainingLog(const std::string& path) : path_(path), csv_(path.ends_with(".csv")) {
  if (path.empty()) return;
  if (!csv_ && !path.ends_with(".jsonl") && !path.ends_with(".json"))
    throw Error("--log {}: a name that ends in .csv, .json or .jsonl is allowed", path);
  try {
    AtomicFile probe(path);
  } catch (const Error&) {
    throw Error("--log {}: cannot be written", path);
  }
}

void TrainingLog::begin(std::optional<int64_t> resumed) {
  if (path_.empty()) return;
  if (resumed) drop_after(*resumed);
  file_.reset(std::fopen(path_.c_str(), resumed ? "ae" : "we"));
  if (!file_) throw Error("--log {}: cannot be written", path_);
  begun_ = std::ftell(file_.get()) > 0;
}

void TrainingLog::add(const EpochRecord& record) {
  if (!file_) return;
  std::string head, line;
  nlohmann::ordered_json json;
  for (const auto& [name, value] : fields_of(record)) {
    head += (head.empty() ? "" : ",") + name;
    line += fmt::format("{}{:.9g}", line.empty() ? "" : ",", value);
    const bool whole = name == "epoch" || name == "updates";
    whole ? json[name] = static_cast<int64_t>(value) : json[name] = value;
  }
  const std::string text = csv_ ? (begun_ ? "" : head + "\n") + line + "\n" : json.dump() + "\n";
  begun_ = true;
  if (std::fputs(text.c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0)
    throw Error("--log {}: cannot be written", path_);
}

std::optional<int64_t> TrainingLog::epoch_of(const std::string& line) const {
  if (!csv_) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("epoch") || !json["epoch"].is_number_integer()) return std::nullopt;
    return json["epoch"].get<int64_t>();
  }
  int64_t epoch = 0;
  if (!CLI::detail::lexical_cast(line.substr(0, line.find(',')), epoch)) return std::nullopt;
  return epoch;
}

void TrainingLog::drop_after(int64_t last) const {
  std::ifstream file(path_);
  std::string kept, line;
  bool dropped = false;
  while (std::getline(file, line)) {
    const bool drop = epoch_of(line).value_or(0) > last;
    dropped |= drop;
    if (!drop) kept += line + "\n";
  }
  if (!dropped) return;
  AtomicFile cut(path_);
  cut.write(kept.data(), kept.size());
  cut.commit();
}

ProgressLine::ProgressLine(int64_t epoch, double each, const char* unit)
    : epoch_(epoch), each_(each), unit_(unit), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressLine::show(const Progress& p) {
  if (!terminal_ || std::chrono::duration<double>(Clock::now() - last_).count() < kProgress_s) return;
  last_ = Clock::now();
  const double spent_s = std::max(std::chrono::duration<double>(last_ - start_).count(), 1e-9);
  fmt::print(stderr, "\r\x1b[Kepoch {}  {} %  loss {:.4f}  {:.0f} {}/s", epoch_, 100 * p.batch / p.batches, p.loss,
             static_cast<double>(p.batch) * each_ / spent_s, unit_);
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace duet
