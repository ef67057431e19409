// SPDX-License-Identifier: Apache-2.0
// What a run has found out about one job, before it becomes JSON.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/sampler.h"
#include "core/attributes.h"
#include "core/compare.h"

namespace duet::bench {

struct Repetition {
  int order = 0;  // position among all repetitions of the run
  std::vector<double> samples_s;
  double foreign_cores = 0;
  std::vector<std::string> flags;  // contended, retried
};

struct Summary {
  double median_s = 0, lo_s = 0, hi_s = 0, min_s = 0;
  std::string interval;
};
Summary summarise(const std::vector<Repetition>& repetitions);  // prefers repetitions without flags

struct Series {
  Scope scope;
  Cache cache;
  int threads = 1;
  Sampler::Counts counts;
  std::vector<Repetition> repetitions;
  std::vector<std::string> flags;
  double first_call_s = 0;
  Summary summary;
};

struct StepRecord {  // of a training step
  std::vector<std::pair<std::string, double>> phases_s, parts_s;
  double memory_peak_bytes = 0;
  int64_t samples = 0, tokens = 0;  // of a step; tokens: 0 where the model has none
  std::vector<std::pair<std::string, std::string>> implementations;
};

enum class Status : uint8_t { ok, skipped, failed };

struct JobRecord {
  std::string name, implementation, device;  // device: cpu, gpu
  Status status = Status::skipped;
  std::string reason, repro;
  std::optional<Check> check;
  std::string algorithm, isa;
  int threads = 1;
  int64_t workspace_bytes = 0;
  double create_s = 0;
  std::vector<Series> series;
  std::optional<StepRecord> step;
};

}  // namespace duet::bench
