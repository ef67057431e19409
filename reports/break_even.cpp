// SPDX-License-Identifier: Apache-2.0
// The size from which the GPU stays ahead: BreakEvenRow of analysis.h.
#include "reports/analysis.h"

namespace duet::reports {

BreakEven break_even(const Sweep& sweep, std::optional<double> SweepPoint::*gpu_s) {
  struct Measured {
    double size;
    bool gpu_ahead;
  };
  std::vector<Measured> points;
  for (const SweepPoint& point : sweep.points)
    if (point.cpu_s && point.*gpu_s)
      points.push_back({static_cast<double>(point.size), *(point.*gpu_s) <= *point.cpu_s});
  if (points.empty()) return {};
  if (!points.back().gpu_ahead) return {BreakEven::Kind::never, points.back().size};

  // Backwards from the largest size: a lead that is lost again at a larger size does not count.
  for (size_t i = points.size() - 1; i > 0; --i)
    if (!points[i - 1].gpu_ahead) return {BreakEven::Kind::between, points[i].size, points[i - 1].size};
  return {BreakEven::Kind::from_smallest, points.front().size};
}

}  // namespace duet::reports
