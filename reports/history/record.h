// SPDX-License-Identifier: Apache-2.0
// What the history keeps of a run: less than the run file, in the types of the database's tables. A run file becomes
// one by record_of(); history.h stores it, json_lines.h writes it as text.
#pragma once
#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "results/run.h"

namespace duet::history {

using results::Facts;

// Why a run was taken. Baselines and trends hold neither `pr`, whose code may never be merged, nor `confirm`, which was
// taken because another run looked slow.
inline constexpr const char* kReasons[] = {"ci", "pr", "nightly", "local", "confirm", "import"};

// One job in one scope, cache state and number of threads, as it is the same in every run.
struct SeriesInfo {
  std::string key;  // name of the job, then /scope/cache/threads:N, as in Google Benchmark's view of a run file
  std::string case_name, family, op, impl, device, dtype, scope, cache, params_json;
  int64_t threads = 1;
  double flops = 0;
  int64_t bytes = 0;
  bool operator==(const SeriesInfo&) const = default;
};

// Times are seconds.
struct Measurement {
  std::string key;  // of its SeriesInfo
  double median_s = 0, lo_s = 0, hi_s = 0, min_s = 0;
  std::vector<double> medians_s;  // of the repetitions, or of the processes, that count
  bool disturbed = false;
  bool operator==(const Measurement&) const = default;
};

// A job that failed, or whose time is no result.
struct Failure {
  std::string job, reason;
  bool operator==(const Failure&) const = default;
};

struct MachineInfo {
  std::string fingerprint;
  Facts facts;  // CPU, cores, instruction set, memory, GPU
  bool operator==(const MachineInfo&) const = default;
};

// Tells runs apart where databases are merged: an id is a time to the second.
struct RunName {
  std::string fingerprint, host, id;
  auto operator<=>(const RunName&) const = default;
};

struct RunInfo {
  RunName name;
  std::string started_at, git_sha;  // UTC, ISO 8601
  bool dirty = false;
  std::string branch, commit_time, reason = "local";
  std::string trust;  // of the run, as the run file has it
  Facts environment;  // what may change a time and is no code: compiler, libraries, driver, kernel, settings
  std::optional<double> gpu_clock_mhz;  // median over the repetitions
  std::optional<RunName> confirms;      // of a confirming run: the run it repeats
  bool valid = true;                    // false: in no baseline and no trend
  std::string note;
  bool operator==(const RunInfo&) const = default;
};

struct RunRecord {
  RunInfo info;
  std::vector<Measurement> measurements;  // by key
  std::vector<Failure> failures;          // by job
  bool operator==(const RunRecord&) const = default;
};

// From this run on a series has a new normal: baselines and change points look at nothing before it.
struct Mark {
  std::string key;  // of the series
  RunName run;
  std::string note;
  bool operator==(const Mark&) const = default;
};

struct Conversion {
  MachineInfo machine;
  std::vector<SeriesInfo> series;
  RunRecord record;
};

// What the environments of two runs have to share for their times to be compared. The names are those of a comparison
// of run files (reports/compare/rows.h). A run without one of them was stored by an older program: it is like no other.
inline constexpr const char* kComparedSettings[] = {"settings.seed", "settings.threads", "settings.scale",
                                                    "settings.min_time_s"};
// Where cases were named: those, with kBetweenCases in between.
inline constexpr const char* kCases = "settings.cases";
inline constexpr const char* kBetweenCases = ", ";
// The first of them that differs, such as "settings.scale is quick, not smoke"; empty where none does.
std::string unlike_setting(const Facts& environment, const Facts& wanted);
std::string fact(const Facts& facts, const std::string& name);  // empty where it is not there

// Throws Error where the run cannot stand in a history: unfinished, or without an id or a time. A run that is unusable
// for ratios becomes one that is not valid.
Conversion record_of(const results::Run& run);

// Throws Error unless the text is such as 2026-11-22T09:58:39Z, by which runs are ordered.
void require_utc(const std::string& where, const std::string& text);

}  // namespace duet::history
