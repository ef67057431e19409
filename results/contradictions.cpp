// SPDX-License-Identifier: Apache-2.0
#include "results/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "results/rules.h"

namespace duet::results {

std::optional<Contradiction> contradiction(const Summary& s) {
  if (!(s.lo_s <= s.median_s && s.median_s <= s.hi_s))
    return Contradiction{"median_s", fmt::format("{} lies outside lo_s {} .. hi_s {}", s.median_s, s.lo_s, s.hi_s)};
  if (s.min_s > s.lo_s) return Contradiction{"min_s", fmt::format("{} is above lo_s {}", s.min_s, s.lo_s)};
  return std::nullopt;
}

std::optional<Contradiction> contradiction(const Roof& r) {
  if (!(r.lo <= r.fraction && r.fraction <= r.hi))
    return Contradiction{"fraction", fmt::format("{} lies outside lo {} .. hi {}", r.fraction, r.lo, r.hi)};
  return std::nullopt;
}

std::optional<Contradiction> contradiction(const Repetition& r) {
  if (r.samples_s.empty()) return Contradiction{"samples_s", "a repetition has at least one sample"};
  if (!r.roof_s.empty() && r.roof_s.size() != r.samples_s.size())
    return Contradiction{"roof_s", fmt::format("{} values for {} samples", r.roof_s.size(), r.samples_s.size())};
  return std::nullopt;
}

std::optional<Contradiction> contradiction(const Series& s) {
  if (s.repetitions.empty()) return Contradiction{"repetitions", "a series has at least one repetition"};
  const Summary from_samples = summarise(s.repetitions);
  const auto differs = [](double x, double y) { return std::abs(x - y) > 1e-9 * y; };
  for (const auto& [member, said, found] : {std::tuple{"median_s", s.summary.median_s, from_samples.median_s},
                                            {"lo_s", s.summary.lo_s, from_samples.lo_s},
                                            {"hi_s", s.summary.hi_s, from_samples.hi_s},
                                            {"min_s", s.summary.min_s, from_samples.min_s}})
    if (differs(said, found))
      return Contradiction{"summary", fmt::format("{} is {}, but the samples give {}", member, said, found)};
  return std::nullopt;
}

std::optional<Contradiction> contradiction(const Reading& r) {
  if (r.value.has_value() == r.source.empty())
    return Contradiction{"source", r.value ? "a value has the counter that it is from" : "given without a value"};
  if (r.value.has_value() != r.unavailable_reason.empty())
    return Contradiction{"unavailable_reason",
                         r.value ? "given beside a value" : "what was not measured has the reason"};
  return std::nullopt;
}

std::optional<Contradiction> contradiction(const Counters& c) {
  bool any = false;
  for (size_t i = 0; i < c.readings.size(); ++i) {
    any |= c.readings[i].value.has_value();
    for (size_t k = 0; k < i; ++k)
      if (c.readings[k].quantity == c.readings[i].quantity)
        return Contradiction{"readings", fmt::format("\"{}\" occurs twice", name_of(c.readings[i].quantity))};
  }
  if (c.readings.empty()) return Contradiction{"readings", "there is at least one"};
  if (any && !c.window) return Contradiction{"window", "a value has a window that it was measured in"};
  if (c.window && !(c.window->time_s >= kMinCounterWindow_s))
    return Contradiction{"window", fmt::format("{} s are shorter than {} s", c.window->time_s, kMinCounterWindow_s)};
  return std::nullopt;
}

std::optional<Contradiction> contradiction(const Job& job) {
  const bool ok = job.status == Status::ok;
  if (ok && job.series.empty()) return Contradiction{"series", "a job that is ok has at least one series"};
  if (!ok && !job.series.empty())
    return Contradiction{"series", fmt::format("a {} job has no series", name_of(job.status))};
  if (!ok && job.step) return Contradiction{"step", fmt::format("a {} job has no step", name_of(job.status))};
  if (!ok && job.counters)
    return Contradiction{"counters", fmt::format("a {} job has no counters", name_of(job.status))};
  if (job.counters) {
    const Counters& c = *job.counters;
    if (std::none_of(job.series.begin(), job.series.end(), [&](const Series& s) {
          return s.scope == c.scope && s.cache == c.cache && s.threads == c.threads;
        }))
      return Contradiction{"counters", "scope, cache and threads are those of no series of the job"};
    if (job.device == Device::cpu && c.value_of(Quantity::gpu_energy_j))
      return Contradiction{"counters", "a job on the CPU has no energy of a GPU"};
  }
  if (!job.comparable && job.reason.empty())
    return Contradiction{"reason", "a job that is not comparable has a reason"};
  if (job.comparable && !job.reason.empty())
    return Contradiction{"comparable", fmt::format("true, but reason says \"{}\"", job.reason)};
  if (job.comparable == (job.trust == Trust::unusable))
    return Contradiction{"trust", fmt::format("\"{}\", but comparable is {}", name_of(job.trust), job.comparable)};
  if (job.comparable) {
    if (!ok) return Contradiction{"comparable", fmt::format("true, but the status is {}", name_of(job.status))};
    const std::string found = refusal(job).empty() ? suspicion(job) : refusal(job);
    if (!found.empty()) return Contradiction{"comparable", "true, but " + found};
  }
  for (const Series& s : job.series)
    if (find_series(job, s.scope, s.cache, s.threads) != &s)
      return Contradiction{"series", fmt::format("\"{}\" occurs twice", series_name(s))};
  if (job.step) {
    const Series* call = step_call(job);
    if (!call) return Contradiction{"step", "a step has a call series"};
    double nodes_s = 0;
    for (const auto& [op, time_s] : job.step->nodes_s) nodes_s += time_s;
    const double residual_s = call->summary.median_s - nodes_s;
    constexpr double kRounding = 1e-6;  // sums in another order
    if (std::abs(job.step->residual_s - residual_s) > kRounding * (call->summary.median_s + nodes_s))
      return Contradiction{"step", fmt::format("residual_s is {}, but the call takes {} s and its nodes {} s",
                                               job.step->residual_s, call->summary.median_s, nodes_s)};
  }
  return std::nullopt;
}

std::optional<Contradiction> contradiction(const Sweep& sweep) {
  const auto& points = sweep.points;
  if (points.empty()) return Contradiction{"points", "a sweep has at least one point"};
  for (size_t i = 1; i < points.size(); ++i)
    if (points[i].size < points[i - 1].size)
      return Contradiction{"points",
                           fmt::format("size {} follows {}: sizes ascend", points[i].size, points[i - 1].size)};
  return std::nullopt;
}

}  // namespace duet::results
