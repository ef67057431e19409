// SPDX-License-Identifier: Apache-2.0
// The command line of bench_all: which cases, on which sides, how long. main.cpp parses it first and passes Options on.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/job_name.h"

namespace duet::bench {

// How much is measured (--scale). smoke: the cheapest case of each op, one repetition; quick: few cases, warm; sweep:
// one size of an op or a training step over its range, timed as in quick; standard: published shapes; full: all of
// them.
enum class Preset : uint8_t { smoke, quick, sweep, standard, full };
const char* name_of(Preset);

extern const char* const kWorkerOption;

// A case that the user names (--case), in place of the preset's: "gemm m:4096 n:512 k:8192", "step/mlp batch:32".
struct NamedCase {
  std::string op, text;  // "gemm", "m:4096 n:512 k:8192" (core/cases.h)
  std::string source;    // for messages and reports: "--case" or "shapes.txt:3"
};

inline bool is_model(const NamedCase& c) { return results::is_model(c.op); }

struct Options {
  Preset preset = Preset::quick;
  std::optional<std::string> json;  // "" or "-": standard output; always set for a run, perhaps not for --list
  bool measured_choice = true;      // implementations of models: the fastest, not the first that is preferred
  bool list = false, resume = false, cpu = true, gpu = true;
  std::vector<NamedCase> cases;                              // empty: those of the preset
  std::string filter, exclude;                               // regular expressions over job names; empty: all, none
  std::vector<std::string> implementations, dtypes, scopes;  // empty: all
  std::optional<int> threads;  // empty: all cores, and one thread beside it from standard on
  uint64_t seed = 1;
  std::optional<int> repetitions;
  std::optional<double> min_time_s;  // budget of one repetition
  std::vector<std::string> argv;
  bool in_process = false;                   // without a supervisor
  int processes = 1;                         // fresh ones that each take all repetitions
  bool times_only = false;                   // no ceilings, no roofs
  bool counters = false;                     // after a case's times: traffic, energy, instructions (counters.h)
  bool count_instructions = false;           // in place of times (instructions.h)
  std::optional<std::string> counting_into;  // in the process that valgrind runs: where jobs are listed
  std::optional<std::string> gpu_choice;     // of several: its number in nvidia-smi, or its UUID
  std::optional<std::string> trace;          // file for a timeline of the ranges (trace.h)
  std::optional<int> profile;               // applications of each series for a profiler, in place of times (capture.h)
  std::optional<std::string> perf_control;  // of perf, which started this process: its two pipes, joined by a comma
  std::optional<int> aa;                    // processes of a run that measures noise: sets `processes`, too
  std::string noise = "out/noise.json";     // where their noise goes
  std::optional<double> job_limit_s;        // empty: from each job's own calibration
  std::optional<int> worker;  // descriptor of the supervisor's page (worker.h), in a process that it started

  bool json_to_stdout() const { return json && (json->empty() || *json == "-"); }
  int repetitions_or_default() const;
  double budget_s() const;
};

// "out/bench_20260101-120000.json", of now in UTC: where a run without --json is written.
std::string default_result_path();

// Parses the command line; --benchmark_{filter,list_tests,out,out_format,repetitions,min_time} map onto our options,
// any other --benchmark_* is refused by name. Returns an exit status when the program is done (--help, a usage error).
std::optional<int> parse(int argc, char** argv, Options& options);

// The cases that the values of --case name: "OP WORDS", a label with its op as reports print it
// ("gemm/f32/m:4096/..."), or "@FILE" with one such line each, "#" before comments. Throws Error naming file and line.
std::vector<NamedCase> read_named_cases(const std::vector<std::string>& values);

}  // namespace duet::bench
