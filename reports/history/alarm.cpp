// SPDX-License-Identifier: Apache-2.0
#include "reports/history/alarm.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "results/statistics.h"

namespace duet::history {

std::optional<RobustZ> robust_z(std::span<const double> baseline_s, double value_s) {
  if (baseline_s.size() > kMaxBaseline) baseline_s = baseline_s.last(kMaxBaseline);
  if (baseline_s.size() < kMinBaseline) return {};
  std::vector<double> logs;
  for (const double time_s : baseline_s) logs.push_back(std::log(time_s));
  const double middle = results::median(logs);
  std::vector<double> distances;
  for (const double value : logs) distances.push_back(std::abs(value - middle));
  constexpr double kNormal = 1.4826;  // of a normal distribution: standard deviation / median absolute deviation
  RobustZ result;
  result.spread = std::max(kNormal * results::median(std::move(distances)), kMinSpread);
  result.median_s = std::exp(middle);
  constexpr double kMaxLog = 20;  // a file may hold any time; what is shown stays finite
  const double distance = std::clamp(std::log(value_s) - middle, -kMaxLog, kMaxLog);
  result.z = distance / result.spread;
  result.change = std::expm1(distance);
  result.runs = baseline_s.size();
  return result;
}

const char* to_text(Status status) {
  switch (status) {
    case Status::too_short:
      return "history too short";
    case Status::same:
      return "same";
    case Status::faster:
      return "faster";
    case Status::slower_unconfirmed:
      return "slower, unconfirmed";
    case Status::slower:
      return "slower";
    case Status::cleared:
      return "slower once, not confirmed";
  }
  return "";
}

std::vector<Point> alike_points(const Window& window, const SeriesHistory& series) {
  const int64_t newest = window.runs[series.points.back().run].environment;
  std::map<int64_t, bool> alike;  // by environment, of which there are few
  for (const auto& [number, environment] : window.environments)
    alike[number] = number == newest || unlike_setting(environment, window.environments.at(newest)).empty();
  std::vector<Point> points;
  for (const Point& point : series.points)
    if (alike.at(window.runs[point.run].environment)) points.push_back(point);
  return points;
}

std::vector<Verdict> verdicts(const History& history, const Window& window) {
  std::vector<Verdict> result;
  if (window.runs.empty()) return result;
  const size_t last = window.runs.size() - 1;
  std::map<std::string, std::vector<double>> confirming;
  for (const int64_t run : history.confirming_runs(window.runs[last].number))
    for (const Measurement& m : history.record(run).measurements) confirming[m.key].push_back(m.median_s);

  for (const SeriesHistory& series : window.series) {
    const Point& now = series.points.back();
    if (now.run != last) continue;
    std::vector<double> before_s;
    for (const Point& point : alike_points(window, series))
      if (point.run != last && point.run >= series.normal.value_or(0)) before_s.push_back(point.median_s);
    Verdict verdict;
    verdict.key = series.info.key;
    verdict.value_s = now.median_s;
    verdict.disturbed = now.disturbed;
    verdict.score = robust_z(before_s, now.median_s);
    if (verdict.score) {
      const RobustZ& score = *verdict.score;
      verdict.status = score.slower() ? Status::slower_unconfirmed : score.faster() ? Status::faster : Status::same;
      if (const auto again = confirming.find(series.info.key); score.slower() && again != confirming.end()) {
        verdict.confirming_s = results::median(again->second);
        verdict.status = robust_z(before_s, *verdict.confirming_s)->slower() ? Status::slower : Status::cleared;
      }
    }
    result.push_back(std::move(verdict));
  }
  return result;
}

}  // namespace duet::history
