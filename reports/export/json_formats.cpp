// SPDX-License-Identifier: Apache-2.0
// The exports that are JSON: Google Benchmark, Bencher, github-action-benchmark.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "reports/export/export.h"
#include "results/run_file.h"

namespace duet::reports {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kNsPerS = 1e9;
constexpr int kIndent = 1;
constexpr size_t kMaxBencherName = 1024;  // characters; bencher.dev/docs/reference/bencher-metric-format

}  // namespace

// The run file without its member "duet": one row a repetition, and the median as an aggregate.
std::string gbench_text(const results::Run& run) { return results::google_benchmark_text(run); }

// {name: {"latency": {value, lower_value, upper_value}}}; Bencher's own measure `latency` is in ns.
std::string bencher_text(const results::Run& run) {
  Json document = Json::object();
  for (const auto& [job, series, name] : exported_series(run)) {
    if (name.size() > kMaxBencherName)
      throw Error("{}: a name of {} bytes, and Bencher takes {}: {}...", run.file, name.size(), kMaxBencherName,
                  visible(name.substr(0, 60)));
    const results::Summary& summary = series->summary;
    document[name] = {{"latency",
                       {{"value", summary.median_s * kNsPerS},
                        {"lower_value", summary.lo_s * kNsPerS},
                        {"upper_value", summary.hi_s * kNsPerS}}}};
  }
  return document.dump(kIndent) + "\n";
}

// [{name, unit, value, range, extra}] of the tool customSmallerIsBetter. Its reader of Google Benchmark's format would
// take repetitions and their median for different benchmarks.
std::string github_action_text(const results::Run& run) {
  Json document = Json::array();
  for (const auto& [job, series, name] : exported_series(run)) {
    const results::Summary& summary = series->summary;
    std::string extra = fmt::format("{}\nCPU: {}", summary.interval, run.machine.cpu.name);
    if (run.machine.gpu) extra += "\nGPU: " + run.machine.gpu->name;
    if (!run.build.git_sha.empty()) extra += "\ncommit: " + run.build.git_sha;
    document.push_back({{"name", name},
                        {"unit", "ns"},
                        {"value", summary.median_s * kNsPerS},
                        {"range", fmt::format("{:.6g} to {:.6g}", summary.lo_s * kNsPerS, summary.hi_s * kNsPerS)},
                        {"extra", std::move(extra)}});
  }
  return document.dump(kIndent) + "\n";
}

}  // namespace duet::reports
