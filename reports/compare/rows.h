// SPDX-License-Identifier: Apache-2.0
// A run as rows that can be compared with those of another run: of a run file or journal of bench_all, or of the JSON
// that any Google Benchmark program writes. compare.h compares two of them; the gate (reports/gate/) joins many.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "results/run.h"

namespace duet::reports {

// What a row is about. speedup: of the best GPU implementation of a case over the best of the CPU. Its values are
// inverted, so that for every metric a larger value is worse.
enum class Metric : uint8_t { time, speedup };

// One series: what one implementation took for one case, in one scope, cache state and number of threads.
struct MeasuredRow {
  std::string name;    // "softmax/cpu.tuned/f32/rows:64/call/warm/threads:2", as in `benchmarks` of the run file
  std::string job;     // of a speedup: the case
  std::string filter;  // regular expression over the names of jobs, for bench_all's --filter: those it is of
  std::string family, device, scope;
  results::Status status = results::Status::ok;
  std::string reason;              // why it has no value that counts; empty where it has
  std::vector<double> values;      // one a process, or one a repetition where there was one process
  std::vector<double> clocks_mhz;  // of the GPU, one a value; empty where it is not known
  double value = 0;                // their median
  double wall_s = 0;               // of all repetitions: samples, probes and what lies between
  bool disturbed = false;
  std::string note;  // for a reader: which implementations a speedup is of
};

// All rows of a file, with what has to be equal for a comparison.
struct MeasuredRun {
  std::string file, kind;  // kind: "Duet" or "Google Benchmark"
  std::string id;          // of the run, the same in all copies of its file; empty where it is not known
  Metric metric = Metric::time;
  std::string commit, started_at;
  int64_t processes = 1;
  results::Facts keys;  // "machine.fingerprint", "build.type", "settings.seed", ...
  std::vector<std::string> warnings;
  std::vector<MeasuredRow> rows;
};

// A regular expression (RE2) for this text, for bench_all's --filter. It has no control characters, so that it can be
// printed.
std::string literal_pattern(const std::string& text);

// Throws Error: one line with file, member, value and what is allowed.
MeasuredRun load_measured(const std::string& path, Metric metric = Metric::time);
MeasuredRun measured(const results::Run& run, Metric metric);

// Of a document of Google Benchmark. Iterations of one name are repetitions; of aggregates, the median counts where
// there are no iterations.
MeasuredRun read_google_benchmark(const std::string& path, const nlohmann::ordered_json& document);

// Keys of which the two runs have different values. Both values are there, "none" where a run lacks the key.
struct Difference {
  std::string key, base, head;
};
std::vector<Difference> differences(const MeasuredRun& base, const MeasuredRun& head);

// Those that `allowed` does not cover: it has keys, or what they begin with (machine, build.libraries, all). Throws
// Error on one that no key begins with.
std::vector<Difference> not_allowed(const std::vector<Difference>& all, const std::vector<std::string>& allowed);
std::string sentence_of(const std::vector<Difference>& differences);  // "build.type is Release in ... and Debug in ..."

}  // namespace duet::reports
