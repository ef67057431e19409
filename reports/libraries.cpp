// SPDX-License-Identifier: Apache-2.0
// Our own CPU code beside the libraries: LibraryRow of analysis.h.
#include <algorithm>
#include <map>
#include <tuple>

#include "reports/analysis.h"
#include "reports/join.h"

namespace duet::reports {
namespace {

// jobs: of one case on one machine.
void add_case(const std::string& name, const std::vector<const Job*>& jobs, Analysis& analysis) {
  std::vector<const Job*> own;
  std::map<std::string, std::vector<const Job*>> libraries;
  for (const Job* job : jobs) (results::is_library(job->impl) ? libraries[job->impl] : own).push_back(job);
  for (const auto& [library, of_library] : libraries)
    for (const Cache cache : {Cache::warm, Cache::cold}) {
      const auto ours = best(own, Device::cpu, cache), theirs = best(of_library, Device::cpu, cache);
      if (!ours || !theirs) continue;
      const std::string machine = machine_of(*theirs->job), family = family_of(*theirs->job);
      auto& rows = analysis.libraries;
      auto row = std::find_if(rows.begin(), rows.end(), [&](const LibraryRow& r) {
        return std::tie(r.family, r.library, r.machine) == std::tie(family, library, machine);
      });
      if (row == rows.end()) row = rows.insert(rows.end(), {.family = family, .library = library, .machine = machine});
      row->cases.push_back({name, theirs->call->summary.median_s / ours->call->summary.median_s});
      break;  // one cache state of a case
    }
}

}  // namespace

void add_libraries(const JobsByCase& cases, Analysis& analysis) {
  for (const auto& [name, jobs] : cases)
    for (const std::vector<const Job*>& of_one : by_machine(jobs)) add_case(name, of_one, analysis);
  for (LibraryRow& row : analysis.libraries) {
    std::sort(row.cases.begin(), row.cases.end(),
              [](const LibraryRow::Case& a, const LibraryRow::Case& b) { return a.ratio < b.ratio; });
    std::vector<double> ratios;
    for (const LibraryRow::Case& c : row.cases) ratios.push_back(c.ratio);
    row.geometric_mean = results::geometric_mean(ratios);
  }
  std::stable_sort(analysis.libraries.begin(), analysis.libraries.end(), [](const LibraryRow& a, const LibraryRow& b) {
    return std::tie(a.machine, a.library, a.family) < std::tie(b.machine, b.library, b.family);
  });
}

}  // namespace duet::reports
