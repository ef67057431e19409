// SPDX-License-Identifier: Apache-2.0
// Rows compared with the ceilings of their own device: Roofline and BandwidthRow of analysis.h.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "reports/analysis.h"
#include "reports/format.h"

namespace duet::reports {
namespace {

struct Seen {
  const Job* job;
  const Series* series;
  bool suspect;
};

// The best implementation of a case, and every suspect one, so that a reader can look for the explanation.
std::vector<Seen> shown(const std::vector<const Job*>& jobs, Device device) {
  std::vector<Seen> found;
  if (const auto choice = best(jobs, device)) found.push_back({choice->job, choice->device_time(), false});
  for (const Job* job : jobs) {
    if (job->device != device || job->comparable || !refusal(*job).empty()) continue;
    const Series* worst = nullptr;
    for (const Series& series : job->series)
      if (is_suspect(series) && series.roof && (!worst || series.roof->fraction > worst->roof->fraction))
        worst = &series;
    if (worst) found.push_back({job, worst, true});
  }
  return found;
}

bool is_compute(const Ceiling& ceiling) { return ceiling.unit == "FLOP/s" || ceiling.unit == "OP/s"; }

std::string dtype_of(const Ceiling& ceiling) {
  return ceiling.dtype.empty() ? ceiling.name.substr(ceiling.name.rfind('.') + 1) : ceiling.dtype;
}

auto preference(const Ceiling& ceiling) { return std::tuple(ceiling.footprint_bytes, ceiling.threads); }

// A dtype may have been measured with several instruction sets or loops: the fastest is its roof.
std::vector<ComputeRoof> compute_roofs(const Run& run, Device device) {
  std::vector<ComputeRoof> roofs;
  for (const Ceiling& ceiling : run.ceilings) {
    if (ceiling.device != name_of(device) || !is_compute(ceiling) || chosen_ceiling(run, ceiling.name) != &ceiling)
      continue;
    const std::string dtype = dtype_of(ceiling);
    const auto same = std::find_if(roofs.begin(), roofs.end(), [&](const auto& roof) { return roof.dtype == dtype; });
    if (same == roofs.end())
      roofs.push_back({dtype, &ceiling});
    else if (same->ceiling->value < ceiling.value)
      same->ceiling = &ceiling;
  }
  std::stable_sort(roofs.begin(), roofs.end(),
                   [](const auto& a, const auto& b) { return a.ceiling->value > b.ceiling->value; });
  return roofs;
}

const Ceiling* bandwidth_roof(const Run& run, Device device) {
  for (const char* pattern : {"copy", "triad", "update", "read"})
    if (const Ceiling* found = chosen_ceiling(run, fmt::format("{}.{}", name_of(device), pattern))) return found;
  return nullptr;
}

Roofline roofline(const Run& run, const JobsByCase& cases, Device device) {
  Roofline chart{.device = device, .bandwidth = bandwidth_roof(run, device), .compute = compute_roofs(run, device)};
  for (const auto& [name, jobs] : cases)
    for (const Seen& seen : shown(jobs, device))
      if (seen.job->flops > 0 && seen.job->bytes > 0)
        chart.points.push_back({seen.job, seen.series, seen.job->flops / static_cast<double>(seen.job->bytes),
                                seen.job->flops / seen.series->summary.median_s, seen.suspect});
  return chart;
}

}  // namespace

const Ceiling* chosen_ceiling(const Run& run, const std::string& name) {
  const Ceiling* chosen = nullptr;
  for (const Ceiling& ceiling : run.ceilings)
    if (ceiling.name == name && (!chosen || preference(ceiling) > preference(*chosen))) chosen = &ceiling;
  return chosen;
}

void add_roofs(const Run& run, const JobsByCase& cases, Analysis& analysis) {
  for (const Device device : {Device::cpu, Device::gpu}) {
    Roofline chart = roofline(run, cases, device);
    if (!chart.points.empty()) analysis.rooflines.push_back(std::move(chart));
  }
  for (const auto& [name, jobs] : cases) {
    BandwidthRow row{.case_name = name, .bars = {}};
    for (const Device device : {Device::cpu, Device::gpu})
      for (const Seen& seen : shown(jobs, device)) {
        const auto& roof = seen.series->roof;
        if (!roof || roof->bound != Bound::memory || seen.series->has_flag(results::flag::kFloor) ||
            seen.job->bytes <= 0)
          continue;
        row.bars.push_back({seen.job, seen.series, byte_per_s(*seen.job, *seen.series), roof->fraction, seen.suspect});
      }
    if (!row.bars.empty()) analysis.bandwidth.push_back(std::move(row));
  }
}

}  // namespace duet::reports
