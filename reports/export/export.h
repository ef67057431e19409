// SPDX-License-Identifier: Apache-2.0
// A run in the formats of other tools: `duet export`. One file here is one format (gbench, bencher, github_action,
// openmetrics, benchfmt, junit); CSV is that of the report. export.cpp lists them and holds what they share.
//
// What is exported: the series of comparable jobs, under names that stay the same from run to run. A job without a
// result is in JUnit and CSV alone, with its reason: elsewhere it would be read as a time. Aggregates are exported only
// as Google Benchmark's own; every other format gets one value a series, or (benchfmt) one a process.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "results/run.h"

namespace duet::reports {

struct ExportFormat {
  const char *name, *reader;  // "bencher"; which tools read it
  std::string (*text)(const results::Run& run);
};
std::span<const ExportFormat> export_formats();

// Throws Error on a name that is not known, listing those that are.
const ExportFormat& export_format(const std::string& name);

// Throws Error on a run that the format cannot hold, too.
inline std::string export_text(const results::Run& run, const std::string& format) {
  return export_format(format).text(run);
}

// --- formats

std::string gbench_text(const results::Run& run);
std::string bencher_text(const results::Run& run);
std::string github_action_text(const results::Run& run);
std::string openmetrics_text(const results::Run& run);
std::string benchfmt_text(const results::Run& run);
std::string junit_text(const results::Run& run);

// A comparison, as `duet compare --json` and `duet gate --json` write it, as JUnit XML (junit_comparison.cpp).
bool is_comparison(const std::string& text);
std::string comparison_junit_text(const std::string& text, const std::string& file);

// --- shared by them

struct ExportedSeries {
  const results::Job* job;
  const results::Series* series;
  std::string name;  // "softmax/cpu.tuned/f32/rows:64/call/warm/threads:4", as in the run file's `benchmarks`
};
// Those of comparable jobs, in the run's order. Throws Error where two have one name.
std::vector<ExportedSeries> exported_series(const results::Run& run);

// One line of printable text: control characters and backslashes as \x1b, \n, \\. Different texts stay different.
std::string visible(const std::string& text);

// The same for XML, inside and outside attributes.
std::string xml_text(const std::string& text);

struct JunitCounts {
  size_t tests = 0, failures = 0, errors = 0, skipped = 0;
};
std::string to_text(const JunitCounts& counts);  // as attributes

}  // namespace duet::reports
