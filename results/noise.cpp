// SPDX-License-Identifier: Apache-2.0
#include "results/noise.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "results/facts.h"
#include "results/json_node.h"
#include "results/rules.h"
#include "results/run_file.h"
#include "results/statistics.h"

namespace duet::results {
namespace {

constexpr int64_t kVersion = 1;
constexpr size_t kMinProcesses = 3;
constexpr double kNormalMad = 1.4826;  // standard deviation of a normal distribution / its median absolute deviation

}  // namespace

double process_noise(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  std::vector<double> logs;
  for (const double v : values) logs.push_back(std::log(v));
  const double middle = median(logs);
  for (double& log : logs) log = std::abs(log - middle);
  // The median absolute deviation of few values is too small on average: by about n / (n - 0.8).
  const auto n = static_cast<double>(values.size());
  return kNormalMad * median(std::move(logs)) * n / (n - 0.8);
}

void add_noise(const Run& run, NoiseFile& noise) {
  auto& rows = noise[run.machine.fingerprint];
  for (const Job& job : run.jobs) {
    if (!job.comparable) continue;
    for (const Series& s : job.series) {
      const std::vector<double> values = counted_medians(s.repetitions);
      if (run.invocation.processes < static_cast<int64_t>(kMinProcesses) || values.size() < kMinProcesses) continue;
      rows[row_name(job, s)] = {process_noise(values), static_cast<int64_t>(values.size()), run.invocation.started_at};
    }
  }
}

NoiseSummary summary_of(const NoiseFile& noise, const Run& run) {
  NoiseSummary summary;
  const auto machine = noise.find(run.machine.fingerprint);
  if (machine == noise.end()) return summary;
  std::vector<double> values;
  for (const Job& job : run.jobs)
    for (const Series& s : job.series) {
      const auto row = machine->second.find(row_name(job, s));
      if (row == machine->second.end()) continue;
      values.push_back(row->second.noise);
      if (values.back() < summary.largest) continue;
      summary.largest = values.back();
      summary.largest_row = row->first;
    }
  summary.rows = values.size();
  if (!values.empty()) summary.median = median(values);
  return summary;
}

NoiseFile load_noise(const std::string& path) {
  Json document;
  if (load_run(path, document)) throw Error("{}: is a run file, not one of noise (bench_all --aa writes one)", path);
  const JsonSource source{path, document};
  const Node root(source);
  const auto version = root.find("duet_noise");
  if (!version) root.fail("member 'duet_noise' is missing: not a file of noise (bench_all --aa writes one)");
  if (const int64_t v = version->integer(Allow::at_least_one); v > kVersion)
    version->fail(fmt::format("{} is newer than the {} that this program reads", v, kVersion));
  NoiseFile noise;
  for (const auto& [fingerprint, machine] : root.at("machines").members())
    for (const auto& [name, row] : machine.members())
      noise[fingerprint][name] = {row.at("noise").number(Allow::not_negative),
                                  row.at("processes").integer(Allow::at_least_one), row.at("measured_at").text()};
  return noise;
}

NoiseFile load_noise_if_any(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) ? load_noise(path) : NoiseFile{};
}

std::string noise_text(const NoiseFile& noise) {
  Json machines = Json::object();
  for (const auto& [fingerprint, rows] : noise) {
    Json of_machine = Json::object();
    for (const auto& [name, row] : rows)
      of_machine[name] = {{"noise", row.noise}, {"processes", row.processes}, {"measured_at", row.measured_at}};
    machines[fingerprint] = std::move(of_machine);
  }
  return Json{{"duet_noise", kVersion}, {"machines", std::move(machines)}}.dump(1) + "\n";
}

}  // namespace duet::results
