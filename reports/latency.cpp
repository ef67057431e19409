// SPDX-License-Identifier: Apache-2.0
// How single calls spread: Percentiles and LatencyRow of analysis.h.
#include <algorithm>
#include <iterator>

#include "reports/analysis.h"
#include "reports/join.h"

namespace duet::reports {
namespace {

// What ops call their number of samples, of all whose name begins so. An op that is missing here has none: one row of
// a sum or a transposed matrix alone is no request that someone waits for.
struct SampleCount {
  const char *op, *name;
};
constexpr SampleCount kSampleCounts[] = {{"step/", "batch"},
                                         {"infer/", "batch"},
                                         {"gemm", "m"},
                                         {"linear", "n"},
                                         {"conv2d", "n"},
                                         {"avg_pool2d", "n"},
                                         {"max_pool2d", "n"},
                                         {"global_avg_pool", "n"},
                                         {"attention", "B"},
                                         {"embedding", "B"},
                                         {"lstm", "B"},
                                         {"gru", "B"},
                                         {"rnn", "B"},
                                         {"batchnorm", "n"},
                                         {"layernorm", "rows"},
                                         {"softmax", "rows"},
                                         {"cross_entropy", "rows"}};

bool is_one_sample(const Job& job) {
  const auto count = std::find_if(std::begin(kSampleCounts), std::end(kSampleCounts),
                                  [&](const SampleCount& known) { return job.op.starts_with(known.op); });
  const bool replicated = std::any_of(job.params.begin(), job.params.end(), [](const auto& parameter) {
    const int64_t* replicas = std::get_if<int64_t>(&parameter.second);
    return parameter.first == "replicas" && replicas && *replicas > 1;
  });
  return !replicated && count != std::end(kSampleCounts) &&
         std::any_of(job.params.begin(), job.params.end(), [&](const auto& parameter) {
           const int64_t* size = std::get_if<int64_t>(&parameter.second);
           return parameter.first == count->name && size && *size == 1;
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
      for (const std::vector<const Job*>& of_one : by_machine(jobs)) {
        const auto choice = best(of_one, device);
        if (!choice) continue;
        if (const auto percentiles = percentiles_of(*choice->call))
          analysis.latencies.push_back({name, choice->job, choice->call, *percentiles});
        else
          ++analysis.batched_latencies;
      }
  }
}

}  // namespace duet::reports
