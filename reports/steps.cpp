// SPDX-License-Identifier: Apache-2.0
// A training step as the sum of its ops, measured alone, and what that sum does not explain.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/analysis.h"

namespace duet::reports {
namespace {

const Job* find_job(const Run& run, const std::string& name) {
  for (const Job& job : run.jobs)
    if (job.name == name) return &job;
  return nullptr;
}

// The call, of most threads, of the cache state measured first.
const Series* call_series(const Job& job) {
  const Series* found = nullptr;
  for (const Series& series : job.series)
    if (series.scope == Scope::call && (!found || series.threads > found->threads)) found = &series;
  return found;
}

// step/<model>/<cpu|gpu|gpu.graph>/<dtype>/batch:N becomes {"GPU graph", "<model> <dtype> batch:N"}.
std::pair<std::string, std::string> side_and_model(const std::string& job) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = job.find('/', begin);
    parts.push_back(job.substr(begin, end == std::string::npos ? end : end - begin));
  }
  if (parts.size() < 3) return {job, job};
  std::string side = parts[2], model = parts[1];
  if (side.starts_with("cpu")) side.replace(0, 3, "CPU");
  if (side.starts_with("gpu")) side.replace(0, 3, "GPU");
  std::replace(side.begin(), side.end(), '.', ' ');
  for (size_t i = 3; i < parts.size(); ++i) model += " " + parts[i];
  return {side, model};
}

std::string impossibility_of(const StepRow& row) {
  if (row.job && !suspicion(*row.job).empty()) return "suspect: no result";
  for (const auto& [part, time_s] : row.step->parts_s)
    if (time_s > row.step_s) return fmt::format("faster than its part '{}' alone: impossible", part);
  return "";
}

// Of each model and precision the rows with most samples, or all where the run does not say.
void mark_primary(std::vector<StepRow>& rows) {
  const auto series = [](const StepRow& row) { return row.job ? row.job->op + "/" + row.job->dtype : row.step->job; };
  std::map<std::string, double> most;
  for (const StepRow& row : rows) {
    double& largest = most[series(row)];
    largest = std::max(largest, row.step->samples.value_or(0));
  }
  for (StepRow& row : rows) row.primary = row.step->samples.value_or(0) == most[series(row)];
}

}  // namespace

std::vector<StepRow> step_rows(const Run& run) {
  std::vector<StepRow> rows;
  for (const Step& step : run.steps) {
    const auto [side, model] = side_and_model(step.job);
    StepRow row{.step = &step,
                .job = find_job(run, step.job),
                .label = side,
                .model = step.model == step.job ? model : step.model,
                .problem = ""};
    row.device = row.label.starts_with("GPU") ? Device::gpu : Device::cpu;
    if (row.job) row.device = row.job->device;
    if (row.job && row.job->status != Status::ok) continue;  // no number for a wrong step; it is listed with its reason
    for (const auto& [part, time_s] : step.parts_s) row.sum_s += time_s;
    for (const auto& [phase, time_s] : step.phases_s) row.phases_s += time_s;
    const Series* call = row.job ? call_series(*row.job) : nullptr;
    row.step_s = call ? call->summary.median_s : step.step_s.value_or(row.sum_s + step.residual_s);
    if (!(row.step_s > 0)) continue;
    row.problem = impossibility_of(row);
    row.explained = !row.problem.empty() || std::abs(row.residual_s()) <= kLargeResidual * row.step_s;
    if (!row.explained)
      row.problem =
          fmt::format("residual {:+.0f} %: its ops alone explain it poorly", 100 * row.residual_s() / row.step_s);
    rows.push_back(std::move(row));
  }
  // A run takes its cases in random order; jobs stand in that of the registry. Steps without a job come last.
  const auto position = [&](const StepRow& row) {
    return row.job ? row.job - run.jobs.data() : static_cast<std::ptrdiff_t>(run.jobs.size());
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const StepRow& a, const StepRow& b) { return position(a) < position(b); });
  mark_primary(rows);
  return rows;
}

}  // namespace duet::reports
