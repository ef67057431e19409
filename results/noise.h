// SPDX-License-Identifier: Apache-2.0
// How much a time differs between processes of one and the same program, by machine and row. `bench_all --aa` measures
// it, `duet gate` calls no smaller shift a difference.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "results/run.h"

namespace duet::results {

struct NoiseRow {
  double noise = 0;  // standard deviation between processes, relative: 0.01 is 1 %
  int64_t processes = 0;
  std::string measured_at;
};

// By the machine's fingerprint, then by the row's name as in `benchmarks` of the run file.
using NoiseFile = std::map<std::string, std::map<std::string, NoiseRow>>;

// Of logarithms: robust, so that one process that something else slowed counts little. 0 for fewer than two values.
double process_noise(const std::vector<double>& values);

// Rows of a run of at least three processes; they replace those of the same name.
void add_noise(const Run& run, NoiseFile& noise);

struct NoiseSummary {
  size_t rows = 0;
  double median = 0, largest = 0;
  std::string largest_row;
};
NoiseSummary summary_of(const NoiseFile& noise, const Run& run);  // of the run's own rows

NoiseFile load_noise(const std::string& path);         // throws Error: one line with file, member and what is allowed
NoiseFile load_noise_if_any(const std::string& path);  // empty where there is no such file
std::string noise_text(const NoiseFile& noise);

}  // namespace duet::results
