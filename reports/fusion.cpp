// SPDX-License-Identifier: Apache-2.0
// What fusion buys: FusionRow and FusionTotal of analysis.h.
#include <algorithm>
#include <string_view>
#include <utility>

#include "reports/analysis.h"
#include "reports/join.h"

namespace duet::reports {
namespace {

bool is_variant(const Job& job, std::string_view variant) { return job.impl.ends_with(variant); }

Interval slower_by(const Series& unfused, const Series& fused) {
  return results::ratio_interval(results::counted_medians(unfused.repetitions),
                                 results::counted_medians(fused.repetitions));
}

// jobs: of one case on one machine.
void add_case(const std::string& name, const std::vector<const Job*>& jobs, Device device, Analysis& analysis) {
  std::vector<const Job*> separate, fused, same_code;
  for (const Job* job : jobs) {
    (is_variant(*job, ".unfused") ? separate : fused).push_back(job);
    if (is_variant(*job, ".tuned")) same_code.push_back(job);
  }
  for (const Cache cache : {Cache::warm, Cache::cold}) {
    const auto unfused = best(separate, device, cache), fastest = best(fused, device, cache);
    if (!unfused || !fastest) continue;
    FusionRow row{.case_name = name, .unfused = *unfused, .fastest = *fastest};
    row.fastest_ratio = slower_by(*unfused->call, *fastest->call);
    if (const auto tuned = best(same_code, device, cache)) {
      row.tuned = tuned;
      row.ratio = slower_by(*unfused->call, *tuned->call);
    }
    analysis.fusions.push_back(std::move(row));
    return;  // one cache state of a case
  }
}

std::vector<FusionTotal> totals_of(const std::vector<FusionRow>& rows) {
  std::vector<FusionTotal> totals;
  for (const FusionRow& row : rows) {
    if (!row.ratio) continue;
    const Job& job = *row.unfused.job;
    const std::string machine = machine_of(job);
    auto total = std::find_if(totals.begin(), totals.end(), [&](const FusionTotal& t) {
      return t.op == job.op && t.machine == machine && t.device == job.device;
    });
    if (total == totals.end())
      total = totals.insert(totals.end(), {.op = job.op, .machine = machine, .device = job.device});
    total->ratios.push_back(row.ratio->value);
  }
  for (FusionTotal& total : totals) total.geometric_mean = results::geometric_mean(total.ratios);
  return totals;
}

}  // namespace

void add_fusions(const JobsByCase& cases, Analysis& analysis) {
  for (const auto& [name, jobs] : cases)
    for (const std::vector<const Job*>& of_one : by_machine(jobs))
      for (const Device device : {Device::cpu, Device::gpu}) add_case(name, of_one, device, analysis);
  analysis.fusion_totals = totals_of(analysis.fusions);
}

}  // namespace duet::reports
