// SPDX-License-Identifier: Apache-2.0
// What `duet train` says of each epoch: to people, on a line that moves and one that stays, and to programs, in a file.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "models/trainer.h"

namespace duet {

struct EpochRecord {
  int64_t epoch = 0, updates = 0;
  double loss = 0;
  Metrics validation;
  double learning_rate = 0, seconds = 0, per_s = 0;
};

std::string text_of(const Metrics& metrics);

// A line of each epoch, at once on the disk. A resumed training goes on behind the epoch of its checkpoint: lines of
// later ones, which are trained again, are dropped.
class TrainingLog {
 public:
  // Throws Error for a name that ends otherwise than in .csv, .json or .jsonl, and where no file can be written there.
  // An empty path: nothing is written.
  explicit TrainingLog(const std::string& path);
  // Until the training begins, after the epochs of its checkpoint, it may be refused: then the file stays as it is.
  void begin(std::optional<int64_t> resumed);
  void add(const EpochRecord& record);

 private:
  std::optional<int64_t> epoch_of(const std::string& line) const;  // nothing where it has none
  void drop_after(int64_t last) const;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  bool csv_, begun_ = false;
  std::unique_ptr<std::FILE, Close> file_;
};

// "epoch 2  37 %  loss 0.123  12345 samples/s" on a terminal, overwritten in place and cleared at the end.
class ProgressLine {
 public:
  // each: how many units, such as samples, a batch has.
  ProgressLine(int64_t epoch, double each, const char* unit);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const Progress& progress);

 private:
  using Clock = std::chrono::steady_clock;
  int64_t epoch_;
  double each_;
  const char* unit_;
  bool terminal_, shown_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace duet
