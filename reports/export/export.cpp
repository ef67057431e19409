// SPDX-License-Identifier: Apache-2.0
#include "reports/export/export.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "reports/render.h"

namespace duet::reports {
namespace {

constexpr ExportFormat kFormats[] = {
    {"gbench", "Google Benchmark's compare.py", gbench_text},
    {"bencher", "Bencher (Bencher Metric Format)", bencher_text},
    {"github-action-benchmark", "github-action-benchmark, tool customSmallerIsBetter", github_action_text},
    {"openmetrics", "Prometheus and others that read OpenMetrics", openmetrics_text},
    {"benchfmt", "Go's benchstat", benchfmt_text},
    {"junit", "CI servers that show JUnit XML", junit_text},
    {"csv", "spreadsheets: one line a series, as report.csv", render_csv},
};

}  // namespace

std::span<const ExportFormat> export_formats() { return kFormats; }

const ExportFormat& export_format(const std::string& name) {
  std::string known;
  for (const ExportFormat& format : kFormats) {
    if (name == format.name) return format;
    known += std::string(known.empty() ? "" : " ") + format.name;
  }
  throw Error("format '{}' is not one of {}", name, known);
}

std::vector<ExportedSeries> exported_series(const results::Run& run) {
  std::vector<ExportedSeries> found;
  std::set<std::string> names;
  for (const results::Job& job : run.jobs) {
    if (!job.comparable) continue;
    for (const results::Series& series : job.series) {
      found.push_back(
          {&job, &series,
           fmt::format("{}/{}/{}/threads:{}", job.name, name_of(series.scope), name_of(series.cache), series.threads)});
      if (!names.insert(found.back().name).second)
        throw Error("{}: {}: two series have this name", run.file, found.back().name);
      if (!std::isfinite(series.summary.hi_s * 1e9))
        throw Error("{}: {}: {} s is too long for nanoseconds", run.file, found.back().name, series.summary.hi_s);
    }
  }
  return found;
}

std::string visible(const std::string& text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n')
      line += "\\n";
    else if (c == '\\')
      line += "\\\\";
    else if (code < 0x20 || code == 0x7f)
      line += fmt::format("\\x{:02x}", code);
    else
      line += c;
  }
  return line;
}

}  // namespace duet::reports
