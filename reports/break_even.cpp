// SPDX-License-Identifier: Apache-2.0
// The size from which the GPU stays ahead: BreakEvenRow of analysis.h.
#include <cmath>

#include "reports/analysis.h"

namespace duet::reports {

BreakEven break_even(const Sweep& sweep, std::optional<double> SweepPoint::*gpu_s) {
  std::vector<std::pair<double, double>> points;  // size, log(GPU / CPU): below 0 the GPU is ahead
  for (const SweepPoint& point : sweep.points)
    if (point.cpu_s && point.*gpu_s)
      points.emplace_back(static_cast<double>(point.size), std::log(*(point.*gpu_s) / *point.cpu_s));
  if (points.empty()) return {};
  if (points.back().second > 0) return {BreakEven::Kind::never, 0};

  // Backwards from the largest size: a lead that is lost again at a larger size does not count.
  for (size_t i = points.size() - 1; i > 0; --i) {
    const auto [size, behind] = points[i - 1];
    if (behind <= 0) continue;
    const double t = behind / (behind - points[i].second);
    return {BreakEven::Kind::at, size * std::pow(points[i].first / size, t)};
  }
  return {BreakEven::Kind::from_smallest, points.front().first};
}

}  // namespace duet::reports
