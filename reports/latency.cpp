// SPDX-License-Identifier: Apache-2.0
// How single calls spread: Percentiles and LatencyRow of analysis.h.
#include <algorithm>

#include "reports/analysis.h"

namespace duet::reports {
namespace {

// The case works on one sample: its batch, or the size that its op calls so, is 1.
bool is_one_sample(const Job& job) {
  return std::any_of(job.params.begin(), job.params.end(), [](const auto& parameter) {
    const int64_t* size = std::get_if<int64_t>(&parameter.second);
    const std::string& name = parameter.first;
    return size && *size == 1 && (name == "batch" || name == "B" || name == "n" || name == "rows");
  });
}

std::vector<double> samples_of(const Series& series, bool with_disturbed) {
  std::vector<double> samples;
  for (const Repetition& repetition : series.repetitions)
    if (with_disturbed || !results::disturbed(repetition))
      samples.insert(samples.end(), repetition.samples_s.begin(), repetition.samples_s.end());
  return samples;
}

}  // namespace

std::optional<Percentiles> percentiles_of(const Series& series) {
  if (series.scope != Scope::call || series.batch != 1) return {};
  std::vector<double> samples = samples_of(series, false);
  if (samples.empty()) samples = samples_of(series, true);
  if (samples.empty()) return {};
  Percentiles found{samples.size(), results::percentile(samples, 0.5), results::percentile(samples, 0.9)};
  if (samples.size() >= kMinP99Samples) found.p99_s = results::percentile(samples, 0.99);
  return found;
}

void add_latencies(const JobsByCase& cases, Analysis& analysis) {
  for (const auto& [name, jobs] : cases) {
    if (!is_one_sample(*jobs.front())) continue;
    for (const Device device : {Device::cpu, Device::gpu})
      if (const auto choice = best(jobs, device))
        if (const auto percentiles = percentiles_of(*choice->call))
          analysis.latencies.push_back({name, choice->job, choice->call, *percentiles});
  }
}

}  // namespace duet::reports
