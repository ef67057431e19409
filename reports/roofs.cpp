// SPDX-License-Identifier: Apache-2.0
// Rows compared with the ceilings of their own device: Roofline and BandwidthRow of analysis.h.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "reports/analysis.h"
#include "reports/format.h"
#include "reports/join.h"

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
std::vector<ComputeRoof> compute_roofs(const Run& run, Device device, const std::string& machine) {
  std::vector<ComputeRoof> roofs;
  for (const Ceiling& ceiling : run.ceilings) {
    if (ceiling.device != name_of(device) || !is_compute(ceiling) || chosen_ceiling(run, ceiling.name) != &ceiling)
      continue;
    if (!machine.empty() && !ceiling.name.ends_with(" @ " + machine)) continue;
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

const Ceiling* bandwidth_roof(const Run& run, Device device, const std::string& machine) {
  for (const char* pattern : {"copy", "triad", "update", "read"})
    if (const Ceiling* found = chosen_ceiling(run, named_of(fmt::format("{}.{}", name_of(device), pattern), machine)))
      return found;
  return nullptr;
}

constexpr double kCacheGain = 1.25;  // a footprint whose ceiling is faster than the largest one's by this is in a cache

// Ceilings of the same pattern and threads as `largest`, by ascending footprint.
std::vector<const Ceiling*> by_footprint(const Run& run, const Ceiling& largest) {
  std::vector<const Ceiling*> found;
  for (const Ceiling& ceiling : run.ceilings)
    if (ceiling.name == largest.name && ceiling.threads == largest.threads) found.push_back(&ceiling);
  std::stable_sort(found.begin(), found.end(),
                   [](const Ceiling* a, const Ceiling* b) { return a->footprint_bytes < b->footprint_bytes; });
  return found;
}

// Whether warm data of this size stays in a cache, by the smallest ceiling that is no smaller.
bool is_cached(const std::vector<const Ceiling*>& ceilings, const Job& job, const Series& series) {
  if (series.cache == Cache::cold) return false;
  for (const Ceiling* ceiling : ceilings)
    if (ceiling->footprint_bytes >= job.footprint_bytes) return ceiling->value > kCacheGain * ceilings.back()->value;
  return false;
}

std::vector<const Job*> of_machine(const std::vector<const Job*>& jobs, const std::string& machine) {
  std::vector<const Job*> found;
  for (const Job* job : jobs)
    if (machine_of(*job) == machine) found.push_back(job);
  return found;
}

Roofline roofline(const Run& run, const JobsByCase& cases, Device device, const std::string& machine) {
  Roofline chart{.device = device,
                 .machine = machine,
                 .bandwidth = bandwidth_roof(run, device, machine),
                 .compute = compute_roofs(run, device, machine)};
  std::vector<const Ceiling*> ceilings;
  if (chart.bandwidth) ceilings = by_footprint(run, *chart.bandwidth);
  for (const Ceiling* ceiling : ceilings)
    if (ceiling->value > kCacheGain * chart.bandwidth->value &&
        (!chart.cache_bandwidth || ceiling->value > chart.cache_bandwidth->value))
      chart.cache_bandwidth = ceiling;
  for (const auto& [name, jobs] : cases)
    for (const Seen& seen : shown(of_machine(jobs, machine), device))
      if (seen.job->flops > 0 && seen.job->bytes > 0)
        chart.points.push_back({seen.job, seen.series, seen.job->flops / static_cast<double>(seen.job->bytes),
                                seen.job->flops / seen.series->summary.median_s, seen.suspect,
                                is_cached(ceilings, *seen.job, *seen.series)});
  return chart;
}

std::vector<FamilyShare> family_shares(const std::vector<BandwidthRow>& rows) {
  std::map<std::string, std::array<std::vector<double>, 2>> fractions;  // by device
  for (const BandwidthRow& row : rows)
    for (const BandwidthRow::Bar& bar : row.bars)
      if (!bar.suspect) fractions[row.family][static_cast<size_t>(bar.job->device)].push_back(bar.fraction);
  std::vector<FamilyShare> shares;
  for (auto& [family, of_device] : fractions) {
    FamilyShare share{.family = family};
    if (auto& cpu = of_device[static_cast<size_t>(Device::cpu)]; !cpu.empty()) share.cpu.emplace(std::move(cpu));
    if (auto& gpu = of_device[static_cast<size_t>(Device::gpu)]; !gpu.empty()) share.gpu.emplace(std::move(gpu));
    shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace

const Ceiling* chosen_ceiling(const Run& run, const std::string& name) {
  const Ceiling* chosen = nullptr;
  for (const Ceiling& ceiling : run.ceilings)
    if (ceiling.name == name && (!chosen || preference(ceiling) > preference(*chosen))) chosen = &ceiling;
  return chosen;
}

void add_roofs(const Run& run, const JobsByCase& cases, Analysis& analysis) {
  std::vector<std::string> machines;  // one without a name where the report has one run
  for (const Job& job : run.jobs)
    if (std::find(machines.begin(), machines.end(), machine_of(job)) == machines.end())
      machines.push_back(machine_of(job));
  for (const Device device : {Device::cpu, Device::gpu})
    for (const std::string& machine : machines) {
      Roofline chart = roofline(run, cases, device, machine);
      if (!chart.points.empty()) analysis.rooflines.push_back(std::move(chart));
    }
  for (const auto& [name, jobs] : cases) {
    BandwidthRow row{.case_name = name, .family = family_of(*jobs.front()), .bars = {}};
    for (const Device device : {Device::cpu, Device::gpu})
      for (const std::string& machine : machines)
        for (const Seen& seen : shown(of_machine(jobs, machine), device)) {
          const auto& roof = seen.series->roof;
          if (!roof || roof->bound != Bound::memory || seen.series->has_flag(results::flag::kFloor) ||
              results::has_disturbed_roof(*seen.series) || seen.job->bytes <= 0)
            continue;
          row.bars.push_back(
              {seen.job, seen.series, byte_per_s(*seen.job, *seen.series), roof->fraction, seen.suspect});
        }
    if (!row.bars.empty()) analysis.bandwidth.push_back(std::move(row));
  }
  analysis.bandwidth_families = family_shares(analysis.bandwidth);
}

}  // namespace duet::reports
