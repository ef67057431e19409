// SPDX-License-Identifier: Apache-2.0
// Curves of a study: measured values stand side by side at equal distances, since 0 is among them and few are round.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "reports/format.h"
#include "reports/studies.h"
#include "reports/svg.h"

namespace duet::reports {
namespace {

constexpr double kLeft = 1, kRight = 99, kFirst = 14, kLast = 94;  // of the width in percent
constexpr double kPlotHeight = 190;                                // pixels

// How a line differs from others of its device: by its shape, its marks and how it is drawn, in 16 ways; its colour is
// the device's.
struct Look {
  Shape shape;
  std::string marker, path;
};
Look look_of(Device device, size_t number) {
  static constexpr Shape kShapes[] = {Shape::circle, Shape::diamond, Shape::square, Shape::triangle};
  const std::string colour = device == Device::cpu ? "cpu" : "gpu";
  const Shape shape = kShapes[number % std::size(kShapes)];
  switch (number / std::size(kShapes) % 4) {
    case 0:
      return {shape, "f-" + colour, "l-" + colour};
    case 1:
      return {shape, "hollow l-" + colour, "l-" + colour + " dash"};
    case 2:
      return {shape, "hollow dots l-" + colour, "l-" + colour + " dots"};
    default:
      return {shape, "f-" + colour + " l-residual", "l-" + colour + " dash"};
  }
}

std::string x_text(const Study& study, double x) { return study.x_is_bytes ? bytes_text(x) : size_text(x); }
std::string y_text(const Study& study, double y) {
  return study.y_unit == "s" ? seconds(y) : study.y_unit.empty() ? times(y) : si(y, study.y_unit);
}

}  // namespace

Chart study_chart(const Study& study) {
  std::vector<double> xs;
  double low = 1e300, high = 0;
  for (const StudyLine& line : study.lines)
    for (const StudyPoint& point : line.points) {
      xs.push_back(point.x);
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  std::sort(xs.begin(), xs.end());
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
  const auto place = [&](double x) {
    const auto index = static_cast<double>(std::lower_bound(xs.begin(), xs.end(), x) - xs.begin());
    return xs.size() < 2 ? (kFirst + kLast) / 2
                         : kFirst + index * (kLast - kFirst) / static_cast<double>(xs.size() - 1);
  };

  Svg svg;
  svg.text({0, 14}, study.name, Anchor::start, "h");
  svg.text({0, 30}, elided(study.y_name, 48), Anchor::start, "m");
  std::vector<LegendEntry> entries;
  std::vector<Look> looks;
  size_t count[2] = {0, 0};
  for (const StudyLine& line : study.lines) {
    looks.push_back(look_of(line.device, count[line.device == Device::cpu ? 0 : 1]++));
    entries.push_back({LegendEntry::marker, looks.back().marker, elided(line.label, 40), looks.back().shape});
  }
  const double top = legend(svg, 2, 50, entries) + 22, bottom = top + kPlotHeight;
  const LogAxis y = LogAxis::round(low, high, bottom, top);
  for (const double value : y.decades()) {
    svg.line({kLeft, y(value)}, {kRight, y(value)}, "grid");
    svg.text({0, y(value) - 3}, y_text(study, value), Anchor::start, "m halo");
  }
  constexpr size_t kMaxTicks = 7;
  const size_t step = 1 + xs.size() / (kMaxTicks + 1);
  for (size_t i = 0; i < xs.size(); i += step) {
    svg.line({place(xs[i]), top}, {place(xs[i]), bottom}, "grid");
    svg.text({place(xs[i]), bottom + 16}, x_text(study, xs[i]), Anchor::middle, "m");
  }
  svg.text({50, bottom + 34}, elided(study.x_name, 48), Anchor::middle, "m");
  for (size_t i = 0; i < study.lines.size(); ++i) {
    const StudyLine& line = study.lines[i];
    std::vector<Point> points;
    for (const StudyPoint& point : line.points) points.emplace_back(place(point.x), y(point.y));
    svg.path(points, looks[i].path);
    for (const StudyPoint& point : line.points) {
      const std::string chosen =
          point.job->plan ? point.job->plan->algorithm : "";  // such as the blocks that fit at once
      svg.marker({place(point.x), y(point.y)}, looks[i].shape, looks[i].marker,
                 fmt::format("{}, {}: {} ({}){}{}", line.label, x_text(study, point.x), y_text(study, point.y),
                             seconds(point.series->summary.median_s), chosen.empty() ? "" : "; ", chosen));
    }
  }
  return std::move(svg).chart(
      "study_" + study.name, "Study: " + study.name,
      fmt::format("{}: {} against {}, the former logarithmic.", study.question, study.y_name, study.x_name), 540,
      static_cast<int>(bottom) + 44);
}

}  // namespace duet::reports
