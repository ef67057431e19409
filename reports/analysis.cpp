// SPDX-License-Identifier: Apache-2.0
#include "reports/analysis.h"

#include <fmt/format.h>

#include <algorithm>

namespace duet::reports {
namespace {

bool gpu_measured(const Run& run) {
  return std::any_of(run.jobs.begin(), run.jobs.end(),
                     [](const Job& job) { return job.device == Device::gpu && job.status == Status::ok; });
}

// What the run says, else the reason most GPU jobs give.
std::string no_gpu_reason(const Run& run) {
  if (!run.no_gpu.empty()) return run.no_gpu;
  std::map<std::string, size_t> votes;
  for (const Job& job : run.jobs)
    if (job.device == Device::gpu && job.status != Status::ok) ++votes[job.reason];
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != votes.end()) return most->first;
  return run.has_gpu ? "no GPU job in this run" : "no GPU on this machine";
}

const char* missing_status(const Job& job) {
  if (job.status != Status::ok) return job.status == Status::failed ? "failed" : "skipped";
  return "excluded";
}

// What failed comes before what was never tried.
int rank(const std::string& status) {
  return status == "failed" ? 0 : status == "suspect" ? 1 : status == "excluded" ? 2 : 3;
}

void add_missing(const Run& run, Analysis& analysis) {
  const auto add = [&](const std::string& status, const std::string& reason, const std::string& job) {
    auto& groups = analysis.missing;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const MissingGroup& g) { return g.status == status && g.reason == reason; });
    if (group == groups.end()) group = groups.insert(groups.end(), {status, reason, {}});
    group->jobs.push_back(job);
  };
  for (const Job& job : run.jobs) {
    const std::string whole = refusal(job);
    if (!whole.empty()) {
      analysis.excluded_jobs += job.status == Status::ok;
      add(missing_status(job), whole, job.name);
    }
    if (job.status != Status::ok) continue;
    const std::string suspect = suspicion(job);
    if (suspect.empty()) continue;
    ++analysis.suspect_jobs;
    add("suspect", suspect + "; kept out of every ratio", job.name);
  }
  std::stable_sort(analysis.missing.begin(), analysis.missing.end(),
                   [](const auto& a, const auto& b) { return rank(a.status) < rank(b.status); });
}

void add_warnings(const Run& run, Analysis& analysis) {
  auto& warnings = analysis.warnings;
  if (!run.complete) warnings.push_back("the run is not complete");
  if (run.git_dirty) warnings.push_back("built from uncommitted changes");
  if (run.build_type != "Release" && run.build_type != "RelWithDebInfo")
    warnings.push_back(fmt::format("build type {}", run.build_type.empty() ? "unknown" : run.build_type));
  for (const Job& job : run.jobs)
    for (const Series& series : job.series)
      for (const Repetition& repetition : series.repetitions) {
        ++analysis.repetitions;
        analysis.disturbed_repetitions += repetition.disturbed();
      }
  if (analysis.disturbed_repetitions > 0)
    warnings.push_back(fmt::format("{} of {} repetitions contended or throttled", analysis.disturbed_repetitions,
                                   analysis.repetitions));
  size_t unexplained = 0;
  for (const StepRow& row : analysis.steps) {
    unexplained += !row.explained;
    if (!row.problem.empty() && row.explained) warnings.push_back(row.step->job + ": " + row.problem);
  }
  if (unexplained > 0)
    warnings.push_back(
        fmt::format("{} of {} training steps have a residual over {:.0f} %: their ops alone explain them poorly",
                    unexplained, analysis.steps.size(), 100 * kLargeResidual));
  warnings.insert(warnings.end(), run.warnings.begin(), run.warnings.end());
}

}  // namespace

Analysis analyse(const Run& run) {
  Analysis analysis;
  for (const Job& job : run.jobs) ++analysis.count[job.status];
  analysis.gpu_measured = gpu_measured(run);
  if (!analysis.gpu_measured) analysis.no_gpu_reason = no_gpu_reason(run);
  const Cases cases = cases_of(run);
  add_pairs(run, cases, analysis);
  add_roofs(run, cases, analysis);
  for (const Sweep& sweep : run.sweeps)
    if (!sweep.points.empty())
      analysis.break_evens.push_back(
          {&sweep, break_even(sweep, &SweepPoint::gpu_call_s), break_even(sweep, &SweepPoint::gpu_end_to_end_s),
           std::any_of(sweep.points.begin(), sweep.points.end(),
                       [](const SweepPoint& p) { return p.gpu_call_s || p.gpu_end_to_end_s; })});
  std::stable_partition(analysis.break_evens.begin(), analysis.break_evens.end(),
                        [](const BreakEvenRow& row) { return row.of_model(); });
  analysis.steps = step_rows(run);
  add_missing(run, analysis);
  add_warnings(run, analysis);
  return analysis;
}

}  // namespace duet::reports
