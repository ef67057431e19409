// SPDX-License-Identifier: Apache-2.0
// OpenMetrics text (openmetrics.io, version 1.0): gauges in base units, whose families each stand together, then # EOF.
#include <fmt/format.h>

#include <functional>

#include "reports/export/export.h"

namespace duet::reports {
namespace {

using results::Job;
using results::Series;

// "name=\"value\"": quotes and backslashes are escaped; control characters are shown as visible() does.
std::string label(const char* name, const std::string& value) {
  std::string safe;
  for (const char c : visible(value)) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += c;
  }
  return fmt::format("{}=\"{}\"", name, safe);
}

std::string labels_of(const ExportedSeries& row) {
  const Job& job = *row.job;
  return fmt::format("{},{},{},{},{},{},{},{},{},{}", label("job_name", job.name), label("op", job.op),
                     label("case", job.case_name), label("family", job.family), label("impl", job.impl),
                     label("device", name_of(job.device)), label("dtype", job.dtype),
                     label("scope", name_of(row.series->scope)), label("cache", name_of(row.series->cache)),
                     label("threads", std::to_string(row.series->threads)));
}

struct Family {
  const char *name, *unit, *help;  // a unit is the last word of the name
  std::function<std::optional<double>(const Job&, const Series&)> value;
};

}  // namespace

std::string openmetrics_text(const results::Run& run) {
  const std::vector<ExportedSeries> rows = exported_series(run);
  const Family families[] = {
      {"duet_time_seconds", "seconds", "Median time of one application.",
       [](const Job&, const Series& s) { return s.summary.median_s; }},
      {"duet_time_lower_seconds", "seconds", "Lower end of the interval of the median.",
       [](const Job&, const Series& s) { return s.summary.lo_s; }},
      {"duet_time_upper_seconds", "seconds", "Upper end of the interval of the median.",
       [](const Job&, const Series& s) { return s.summary.hi_s; }},
      {"duet_roof_ratio", "ratio", "Time that the roof of the device allows, divided by the time measured.",
       [](const Job&, const Series& s) { return s.roof ? std::optional(s.roof->fraction) : std::nullopt; }},
      {"duet_traffic_bytes", "bytes", "Compulsory memory traffic of one application.",
       [](const Job& job, const Series&) { return static_cast<double>(job.bytes); }},
      {"duet_operations", "", "Arithmetic operations of one application.",
       [](const Job& job, const Series&) { return job.flops; }},
  };
  std::string gpu = run.machine.gpu ? run.machine.gpu->name : "";
  std::string text =
      "# TYPE duet_run info\n# HELP duet_run What was measured, and where.\n" +
      fmt::format("duet_run_info{{{},{},{},{},{},{}}} 1\n", label("run_id", run.invocation.id),
                  label("started_at", run.invocation.started_at), label("commit", run.build.git_sha),
                  label("machine", run.machine.fingerprint), label("cpu", run.machine.cpu.name), label("gpu", gpu));
  text += "# TYPE duet_jobs gauge\n# HELP duet_jobs Jobs of the run by status.\n";
  for (const results::Status status : {results::Status::ok, results::Status::skipped, results::Status::failed}) {
    size_t count = 0;
    for (const Job& job : run.jobs) count += job.status == status;
    text += fmt::format("duet_jobs{{{}}} {}\n", label("status", name_of(status)), count);
  }
  for (const Family& family : families) {
    text += fmt::format("# TYPE {} gauge\n", family.name);
    if (*family.unit) text += fmt::format("# UNIT {} {}\n", family.name, family.unit);
    text += fmt::format("# HELP {} {}\n", family.name, family.help);
    for (const ExportedSeries& row : rows)
      if (const auto value = family.value(*row.job, *row.series))
        text += fmt::format("{}{{{}}} {}\n", family.name, labels_of(row), *value);
  }
  return text + "# EOF\n";
}

}  // namespace duet::reports
