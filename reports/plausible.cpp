// SPDX-License-Identifier: Apache-2.0
// What may stand in a ratio: verified, plausible, and no judge.
#include <fmt/format.h>

#include <algorithm>

#include "reports/analysis.h"

namespace duet::reports {
namespace {

// The reference is serial and in double: a ratio over it is worthless. simt runs CUDA kernels on the host for checking.
bool is_judge(const std::string& impl) {
  const std::string provider = impl.substr(0, impl.find('.'));
  const std::string variant = impl.substr(impl.find('.') == std::string::npos ? 0 : impl.find('.') + 1);
  return provider == "simt" || variant == "reference" || variant == "reference" || variant == "ref";
}

}  // namespace

std::string suspicion(const Series& series) {
  const bool interpreted = series.roof && !series.has_flag("floor");
  if (interpreted && series.roof->fraction > kOverRoof)
    return fmt::format("{:.0f} % of its roof: wrong byte count or broken timing", 100 * series.roof->fraction);
  if (series.has_flag("suspect")) return "flagged suspect by the run";
  return "";
}

std::string refusal(const Job& job) {
  if (job.status != Status::ok) return job.reason;
  if (is_judge(job.impl)) return "a judge of results, never a competitor";
  if (!job.check || !job.check->max_error_ratio) return "timed, but its result was not checked";
  if (job.check->slices == 0 || job.check->elements == 0) return "timed, but no part of its result was compared";
  if (!(*job.check->max_error_ratio <= 1))
    return fmt::format("largest error is {:.3g} times its bound", *job.check->max_error_ratio);
  return "";
}

std::string suspicion(const Job& job) {
  std::string text;
  for (const Series& series : job.series)
    if (const std::string reason = suspicion(series); !reason.empty())
      text += fmt::format("{}{}, {}, {} thread{}: {}", text.empty() ? "" : "; ", to_text(series.scope),
                          to_text(series.cache), series.threads, series.threads == 1 ? "" : "s", reason);
  return text;
}

const Series* find_series(const Job& job, Scope scope, Cache cache, int64_t threads) {
  for (const Series& series : job.series)
    if (series.scope == scope && series.cache == cache && series.threads == threads) return &series;
  return nullptr;
}

std::vector<double> repetition_medians(const Series& series) {
  constexpr int kEnough = 3;  // one clean repetition alone would look like no spread at all
  std::vector<double> clean, all;
  for (const Repetition& repetition : series.repetitions) {
    all.push_back(median(repetition.samples_s));
    if (!repetition.disturbed()) clean.push_back(all.back());
  }
  return clean.size() >= kEnough ? clean : all;
}

}  // namespace duet::reports
