// SPDX-License-Identifier: Apache-2.0
// CPU against GPU, case by case: SpeedupRow, OneSidedRow and FamilyTotal of analysis.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reports/analysis.h"
#include "reports/format.h"
#include "reports/join.h"

namespace duet::reports {
namespace {

const Series* one_thread_call(const Choice& choice) {
  if (choice.job->device != Device::cpu || choice.call->threads == 1) return nullptr;
  return results::find_series(*choice.job, Scope::call, choice.call->cache, 1);
}

bool weak(const Series& call) { return call.has_flag(results::flag::kWeakCpu); }

// Why a device has no usable result in a case.
std::string reasons(const std::vector<const Job*>& jobs, Device device, const Analysis& analysis) {
  std::vector<std::string> found;
  const auto add = [&](const std::string& reason) {
    if (!reason.empty() && std::find(found.begin(), found.end(), reason) == found.end()) found.push_back(reason);
  };
  for (const Job* job : jobs) {
    if (job->device != device) continue;
    add(job->reason);
    if (found.empty()) add("no call of it was timed");
  }
  if (found.empty() && device == Device::gpu && !analysis.gpu_measured) return analysis.no_gpu_reason;
  if (found.empty()) return fmt::format("no {} implementation of this case in this run", to_text(device));
  const std::string more = found.size() > 2 ? fmt::format("; and {} more", found.size() - 2) : "";
  return found[0] + (found.size() > 1 ? "; " + found[1] : "") + more;
}

// Appends the other jobs of the choice's side.
void add_slower(const std::vector<const Job*>& jobs, const Choice& choice, std::vector<SlowerJob>& slower) {
  std::vector<SlowerJob> found;
  for (const Job* job : jobs)
    if (job != choice.job)
      if (const auto other = best({job}, choice.job->device, choice.call->cache))
        found.push_back({job, other->call->summary.median_s / choice.call->summary.median_s});
  std::stable_sort(found.begin(), found.end(),
                   [](const SlowerJob& a, const SlowerJob& b) { return a.factor < b.factor; });
  slower.insert(slower.end(), found.begin(), found.end());
}

SpeedupRow make_row(const std::string& case_name, const Choice& cpu, const Choice& gpu) {
  SpeedupRow row{.case_name = case_name, .family = family_of(*cpu.job), .cpu = cpu, .gpu = gpu};
  const std::vector<double> numerator = results::counted_medians(cpu.call->repetitions);
  for (const Scope scope : kScopes)
    if (const Series* series = gpu.at(scope))
      row.ratio[static_cast<size_t>(scope)] =
          results::ratio_interval(numerator, results::counted_medians(series->repetitions));
  row.one_thread = one_thread_call(cpu);
  row.weak_cpu = weak(*cpu.call);
  row.across_machines = machine_of(*cpu.job) != machine_of(*gpu.job);
  return row;
}

// Whether a suspect job on the same side has a faster call.
bool contested(const std::vector<const Job*>& jobs, const Choice& choice) {
  for (const Job* job : jobs) {
    if (job->device != choice.job->device || job->comparable || !refusal(*job).empty()) continue;
    for (const Series& call : job->series)
      if (call.scope == Scope::call && call.cache == choice.call->cache &&
          call.summary.median_s < choice.call->summary.median_s)
        return true;
  }
  return false;
}

bool only_cold(const std::vector<const Job*>& jobs, Device device) {
  return best(jobs, device, Cache::cold) && !best(jobs, device, Cache::warm);
}

void add_case(const std::string& name, const std::vector<const Job*>& jobs, Analysis& analysis) {
  bool found = false;
  using Jobs = std::vector<const Job*>;
  const auto add = [&](const Jobs& cpus, const std::optional<Choice>& cpu, const Jobs& gpus,
                       const std::optional<Choice>& gpu) {
    if (!cpu || !gpu) return false;
    analysis.speedups.push_back(make_row(name, *cpu, *gpu));
    add_slower(cpus, *cpu, analysis.speedups.back().slower);
    add_slower(gpus, *gpu, analysis.speedups.back().slower);
    analysis.speedups.back().primary = !found;
    analysis.speedups.back().contested = contested(jobs, *cpu) || contested(jobs, *gpu);
    found = true;
    return true;
  };
  // Both sides of one machine come first: theirs is the case's primary row. Then those across machines.
  const std::vector<Jobs> machines = by_machine(jobs);
  for (const bool across : {false, true})
    for (size_t cpu = 0; cpu < machines.size(); ++cpu)
      for (size_t gpu = 0; gpu < machines.size(); ++gpu) {
        if (across == (cpu == gpu)) continue;
        bool any = false;
        for (const Cache cache : {Cache::warm, Cache::cold})
          any |= add(machines[cpu], best(machines[cpu], Device::cpu, cache), machines[gpu],
                     best(machines[gpu], Device::gpu, cache));
        // A footprint far larger than a device's cache is timed once and called cold: warm and cold are the same there.
        if (!any && (only_cold(machines[cpu], Device::cpu) || only_cold(machines[gpu], Device::gpu)))
          add(machines[cpu], best(machines[cpu], Device::cpu), machines[gpu], best(machines[gpu], Device::gpu));
      }
  if (found) return;

  for (const auto& [device, other] : {std::pair(Device::cpu, Device::gpu), std::pair(Device::gpu, Device::cpu)}) {
    const bool both = best(jobs, device) && best(jobs, other);
    for (const std::vector<const Job*>& of_one : machines)
      if (const auto choice = best(of_one, device)) {
        analysis.one_sided.push_back(
            {.case_name = name,
             .family = family_of(*choice->job),
             .device = device,
             .choice = *choice,
             .one_thread = one_thread_call(*choice),
             .weak_cpu = device == Device::cpu && weak(*choice->call),
             .no_ratio_reason = both ? "no cache state measured on both sides" : reasons(jobs, other, analysis)});
        add_slower(of_one, *choice, analysis.one_sided.back().slower);
      }
  }
}

std::vector<FamilyTotal> family_totals(const std::vector<SpeedupRow>& rows) {
  std::vector<FamilyTotal> totals;
  std::map<std::string, std::vector<double>> ratios, end_to_end;
  for (const SpeedupRow& row : rows) {
    if (!row.primary || row.kind() != Kind::op) continue;
    const std::string& family = row.family;
    auto total = std::find_if(totals.begin(), totals.end(), [&](const FamilyTotal& t) { return t.family == family; });
    if (total == totals.end()) total = totals.insert(totals.end(), FamilyTotal{.family = family});
    ++total->cases;
    total->cpu_s += row.cpu.call->summary.median_s;
    total->gpu_s += row.gpu.call->summary.median_s;
    total->gpu_wins += winner(row.call()) == Winner::gpu;
    total->cpu_wins += winner(row.call()) == Winner::cpu;
    ratios[family].push_back(row.call_ratio());
    if (const auto& ratio = row.ratio[static_cast<size_t>(Scope::end_to_end)])
      end_to_end[family].push_back(ratio->value);
  }
  for (FamilyTotal& total : totals) {
    total.geometric_mean = results::geometric_mean(ratios[total.family]);
    total.call.emplace(ratios[total.family]);
    if (const auto at = end_to_end.find(total.family); at != end_to_end.end()) total.end_to_end.emplace(at->second);
  }
  std::sort(totals.begin(), totals.end(), [](const auto& a, const auto& b) { return a.family < b.family; });
  return totals;
}

}  // namespace

Winner winner(const Interval& ratio) { return ratio.lo > 1 ? Winner::gpu : ratio.hi < 1 ? Winner::cpu : Winner::level; }

void add_pairs(const JobsByCase& cases, Analysis& analysis) {
  for (const auto& [name, jobs] : cases) add_case(name, jobs, analysis);
  std::stable_sort(analysis.speedups.begin(), analysis.speedups.end(),
                   [](const SpeedupRow& a, const SpeedupRow& b) { return a.call_ratio() > b.call_ratio(); });
  analysis.families = family_totals(analysis.speedups);
}

}  // namespace duet::reports
