// SPDX-License-Identifier: Apache-2.0
// A training step or an inference as the sum of its nodes, each timed alone, and the residual: StepRow of analysis.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "reports/analysis.h"
#include "reports/join.h"

namespace duet::reports {
namespace {

// step/<model>/<cpu|gpu|gpu.graph>/<dtype>/batch:N, or infer/..., becomes {"GPU graph", "<model> <dtype> batch:N"}.
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
  if (!suspicion(*row.job).empty()) return "suspect: no result";
  for (const auto& [op, time_s] : row.step().nodes_s)
    if (time_s > row.step_s) return fmt::format("faster than its nodes of '{}' alone: impossible", op);
  return "";
}

// Of each model and precision the rows with most samples.
void mark_primary(std::vector<StepRow>& rows) {
  const auto series = [](const StepRow& row) { return row.job->op + "/" + row.job->dtype; };
  std::map<std::string, int64_t> max_samples;
  for (const StepRow& row : rows) {
    int64_t& largest = max_samples[series(row)];
    largest = std::max(largest, row.step().samples);
  }
  for (StepRow& row : rows) row.primary = row.step().samples == max_samples[series(row)];
}

}  // namespace

std::vector<StepRow> step_rows(const Run& run, Kind kind) {
  std::vector<StepRow> rows;
  for (const Job& job : run.jobs) {
    if (!job.step || kind_of(job.op) != kind) continue;
    const auto [side, model] = side_and_model(job.name);
    StepRow row{.job = &job, .side = side, .model = model, .label = named_of(side, job.machine), .problem = ""};
    for (const auto& [op, time_s] : job.step->nodes_s) row.sum_s += time_s;
    for (const auto& [phase, time_s] : job.step->phases_s) row.phases_s += time_s;
    row.step_s = results::step_call(job)->summary.median_s;
    row.percentiles = percentiles_of(*results::step_call(job));
    row.problem = impossibility_of(row);
    row.explained = !row.problem.empty() || std::abs(row.residual_s()) <= results::kLargeResidual * row.step_s;
    if (!row.explained)
      row.problem = fmt::format("residual {:+.0f} %: the sum of its nodes explains it poorly",
                                100 * row.residual_s() / row.step_s);
    rows.push_back(std::move(row));
  }
  mark_primary(rows);
  return rows;
}

std::vector<StepPairs> step_pairs(const std::vector<StepRow>& rows) {
  std::vector<StepPairs> all;
  const auto medians = [](const StepRow& row) {
    return results::counted_medians(results::step_call(*row.job)->repetitions);
  };
  // The fastest possible step on the CPU, of one machine or of all.
  const auto fastest_cpu = [&](const std::string& model, const std::string* machine) {
    const StepRow* fastest = nullptr;
    for (const StepRow& row : rows)
      if (row.possible() && row.job->device == Device::cpu && row.model == model &&
          (!machine || machine_of(*row.job) == *machine) && (!fastest || row.step_s < fastest->step_s))
        fastest = &row;
    return fastest;
  };
  for (const StepRow& row : rows) {
    if (!row.possible()) continue;
    const std::string machine = machine_of(*row.job);
    auto pairs = std::find_if(all.begin(), all.end(),
                              [&](const StepPairs& p) { return p.model == row.model && p.machine == machine; });
    if (pairs == all.end()) {
      const StepRow* cpu = fastest_cpu(row.model, &machine);
      pairs = all.insert(all.end(), {row.model, machine, cpu ? cpu : fastest_cpu(row.model, nullptr), {}});
    }
    if (row.job->device == Device::gpu)
      pairs->gpu.push_back({&row, pairs->cpu
                                      ? std::optional(results::ratio_interval(medians(*pairs->cpu), medians(row)))
                                      : std::nullopt});
  }
  // A CPU that stands beside another machine's GPU is not repeated alone.
  std::set<const StepRow*> paired;
  for (const StepPairs& pairs : all)
    if (!pairs.gpu.empty()) paired.insert(pairs.cpu);
  std::erase_if(all, [&](const StepPairs& pairs) { return pairs.gpu.empty() && paired.contains(pairs.cpu); });
  return all;
}

}  // namespace duet::reports
