// SPDX-License-Identifier: Apache-2.0
// Puts an analysis together: what has no result and why, and what weakens the run as a whole.
#include "reports/analysis.h"
#include "reports/join.h"
#include "results/job_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace duet::reports {
namespace {

bool gpu_measured(const Run& run) {
  return std::any_of(run.jobs.begin(), run.jobs.end(),
                     [](const Job& job) { return job.device == Device::gpu && job.status == Status::ok; });
}

// The run's reason, or where it gives none the most frequent one of its GPU jobs.
std::string no_gpu_reason(const Run& run) {
  if (!run.invocation.no_gpu.empty()) return run.invocation.no_gpu;
  std::map<std::string, size_t> votes;
  for (const Job& job : run.jobs)
    if (job.device == Device::gpu && job.status != Status::ok) ++votes[job.reason];
  const auto most =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != votes.end()) return most->first;
  return run.machine.gpu ? "no GPU job in this run" : "no GPU on this machine";
}

std::string missing_status(const Job& job) {
  if (job.status != Status::ok) return name_of(job.status);
  return refusal(job).empty() ? "suspect" : "excluded";
}

// Failed jobs come before those that were never tried.
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
    if (job.comparable) continue;
    const std::string status = missing_status(job);
    analysis.excluded_jobs += status == "excluded";
    analysis.suspect_jobs += status == "suspect";
    add(status, status == "suspect" ? job.reason + "; kept out of every ratio" : job.reason,
        named_of(job.name, job.machine));
  }
  std::stable_sort(analysis.missing.begin(), analysis.missing.end(),
                   [](const auto& a, const auto& b) { return rank(a.status) < rank(b.status); });
}

void add_warnings(const Run& run, Analysis& analysis) {
  auto& warnings = analysis.warnings;
  if (!run.invocation.complete) warnings.push_back("the run is not complete");
  if (run.build.git_dirty) warnings.push_back("built from uncommitted changes");
  if (run.build.type != "Release" && run.build.type != "RelWithDebInfo")
    warnings.push_back(fmt::format("build type {}", run.build.type.empty() ? "unknown" : run.build.type));
  for (const Job& job : run.jobs)
    for (const Series& series : job.series)
      for (const Repetition& repetition : series.repetitions) {
        ++analysis.repetitions;
        analysis.disturbed_repetitions += results::disturbed(repetition);
      }
  if (analysis.disturbed_repetitions > 0)
    warnings.push_back(fmt::format("{} of {} repetitions contended, slowed or throttled",
                                   analysis.disturbed_repetitions, analysis.repetitions));
  if (run.invocation.trust != Trust::trustworthy) {
    warnings.push_back(std::string("state of the run: ") + name_of(run.invocation.trust));
    warnings.insert(warnings.end(), run.invocation.doubts.begin(), run.invocation.doubts.end());
  }
  const auto across = static_cast<size_t>(std::count_if(analysis.speedups.begin(), analysis.speedups.end(),
                                                        [](const SpeedupRow& row) { return row.across_machines; }));
  if (across > 0)
    warnings.push_back(fmt::format("{} of {} speedups are across machines: the CPU of one against the GPU of another",
                                   across, analysis.speedups.size()));
  for (const auto& [rows, noun] :
       {std::pair(&analysis.steps, "training steps"), {&analysis.inferences, "inferences"}}) {
    size_t unexplained = 0;
    for (const StepRow& row : *rows) {
      unexplained += !row.explained;
      if (!row.problem.empty() && row.explained) warnings.push_back(row.job->name + ": " + row.problem);
    }
    if (unexplained > 0)
      warnings.push_back(
          fmt::format("{} of {} {} have a residual over {:.0f} %: the sum of their nodes explains them poorly",
                      unexplained, rows->size(), noun, 100 * results::kLargeResidual));
  }
  warnings.insert(warnings.end(), run.invocation.warnings.begin(), run.invocation.warnings.end());
}

}  // namespace

Kind kind_of(const std::string& case_name) {
  if (results::is_inference(case_name)) return Kind::inference;
  return results::is_model(case_name) ? Kind::step : Kind::op;
}

std::string family_of(const Job& job) { return job.family.empty() ? "other" : job.family; }

Spread::Spread(std::vector<double> of) : values(std::move(of)) { std::sort(values.begin(), values.end()); }
double Spread::median() const { return results::median(values); }

Analysis analyse(const Run& run) {
  Analysis analysis;
  for (const Job& job : run.jobs) ++analysis.count[job.status];
  analysis.gpu_measured = gpu_measured(run);
  if (!analysis.gpu_measured) analysis.no_gpu_reason = no_gpu_reason(run);
  const JobsByCase cases = results::jobs_by_case(run.jobs);
  add_pairs(cases, analysis);
  analysis.beaten = results::beaten(run.jobs);
  add_latencies(cases, analysis);
  add_fusions(cases, analysis);
  add_libraries(cases, analysis);
  add_roofs(run, cases, analysis);
  for (const Sweep& sweep : run.sweeps)
    if (!sweep.points.empty())
      analysis.break_evens.push_back(
          {&sweep, break_even(sweep, &SweepPoint::gpu_call_s), break_even(sweep, &SweepPoint::gpu_end_to_end_s),
           std::any_of(sweep.points.begin(), sweep.points.end(),
                       [](const SweepPoint& p) { return p.gpu_call_s || p.gpu_end_to_end_s; })});
  std::stable_partition(analysis.break_evens.begin(), analysis.break_evens.end(),
                        [](const BreakEvenRow& row) { return row.of_model(); });
  analysis.steps = step_rows(run, Kind::step);
  analysis.inferences = step_rows(run, Kind::inference);
  analysis.studies = studies_of(run);
  add_missing(run, analysis);
  add_warnings(run, analysis);
  return analysis;
}

}  // namespace duet::reports
