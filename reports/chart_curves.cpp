// SPDX-License-Identifier: Apache-2.0
// Charts on two logarithmic axes: rooflines, and time against size.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/join.h"
#include "reports/svg.h"

namespace duet::reports {
namespace {

// The roofline's plot area: percent of the width, pixels.
constexpr double kLeft = 1, kRight = 99, kTop = 44, kBottom = 356;
constexpr int kWidth = 540;  // pixels of a chart in a file of its own; charts this narrow stand side by side

double to_pixels(double percent) { return percent * kNarrow / 100; }

// Labels of the vertical axis stand on its lines, so that the plot has the whole width.
void tick_text(Svg& svg, double y, const std::string& text) { svg.text({0, y - 3}, text, Anchor::start, "m halo"); }

// The colour of a mark is its device, the shape its precision.
std::map<std::string, Shape> shapes_of(const Roofline& roofline) {
  static constexpr Shape kOrder[] = {Shape::circle, Shape::diamond, Shape::square, Shape::triangle};
  std::map<std::string, Shape> shapes;
  if (std::any_of(roofline.points.begin(), roofline.points.end(), [](const auto& p) { return p.job->dtype == "f32"; }))
    shapes["f32"] = Shape::circle;
  for (const RooflinePoint& point : roofline.points)
    shapes.try_emplace(point.job->dtype, kOrder[std::min<size_t>(shapes.size(), 3)]);
  return shapes;
}

struct Plot {
  Svg svg;
  LogAxis x, y;
  std::string colour;  // cpu or gpu
};

void axes(Plot& plot, Labels& labels, const Roofline& roofline) {
  Svg& svg = plot.svg;
  for (const double value : plot.x.decades(6)) {
    svg.line({plot.x(value), kTop}, {plot.x(value), kBottom}, "grid");
    svg.text({plot.x(value), kBottom + 16}, fmt::format("{:g}", value), Anchor::middle, "m");
  }
  for (const double value : plot.y.decades()) {
    const double y = plot.y(value);
    svg.line({kLeft, y}, {kRight, y}, "grid");
    tick_text(svg, y, si(value, "", 1));
    labels.keep_free({0, y - 14, 36, y});
  }
  svg.text({0, 14}, named_of(to_text(roofline.device) + " roofline, FLOP/s", roofline.machine), Anchor::start, "h");
  if (roofline.bandwidth)
    svg.text({0, 30},
             roofline.bandwidth->name + " " + si(roofline.bandwidth->value, "B/s") +
                 (roofline.cache_bandwidth ? ", in cache up to " + si(roofline.cache_bandwidth->value, "B/s") : ""),
             Anchor::start, "m");
  svg.text({50, kBottom + 34}, "FLOP per byte of compulsory traffic", Anchor::middle, "m");
  std::vector<LegendEntry> entries;
  for (const auto& [dtype, shape] : shapes_of(roofline))
    entries.push_back({LegendEntry::marker, "f-" + plot.colour, dtype, shape});
  if (std::any_of(roofline.points.begin(), roofline.points.end(), [](const auto& p) { return p.cached; }))
    entries.push_back({LegendEntry::marker, "hollow l-" + plot.colour, "in a cache"});
  legend(svg, 2, kBottom + 54, entries);
}

// The slanted line of a bandwidth, up to the fastest compute ceiling.
void memory_roof(Plot& plot, Labels& labels, double bandwidth, double peak, const std::string& cls) {
  const double foot = std::max(plot.x.low(), plot.y.low() / bandwidth);
  const double knee = std::clamp(peak / bandwidth, foot, plot.x.high());
  plot.svg.path({{plot.x(foot), plot.y(foot * bandwidth)}, {plot.x(knee), plot.y(knee * bandwidth)}}, cls);
  for (int i = 0; i <= 100; ++i) {
    const double intensity = foot * std::pow(knee / foot, i / 100.0);
    const double x = to_pixels(plot.x(intensity)), y = plot.y(intensity * bandwidth);
    labels.keep_free({x - 1, y - 1, x + 1, y + 1});
  }
}

void compute_roofs(Plot& plot, Labels& labels, const Roofline& roofline) {
  struct Name {
    double y;
    std::string text, value;
  };
  std::vector<Name> names;
  for (const ComputeRoof& roof : roofline.compute) {
    const double peak = roof.ceiling->value, y = plot.y(peak);
    const double knee = roofline.bandwidth ? plot.x(peak / roofline.bandwidth->value) : kLeft;
    const bool fastest = &roof == &roofline.compute.front();
    plot.svg.path({{knee, y}, {kRight, y}}, "l-" + plot.colour + (fastest ? "" : " dash"));
    labels.keep_free({to_pixels(knee), y - 3, to_pixels(kRight), y + 3});
    const std::string value = si(peak, roof.ceiling->unit);
    if (!names.empty() && names.back().value == value)
      names.back().text += ", " + roof.dtype;
    else if (!names.empty() && y - names.back().y < 15)  // too close for a label of its own
      names.back().text += fmt::format(" {}; {}", std::exchange(names.back().value, value), roof.dtype);
    else
      names.push_back({y, roof.dtype, value});
  }
  for (Name& name : names) name.text += " " + name.value;
  for (const Name& name : names) {
    plot.svg.text({kRight, name.y - 4}, elided(name.text, 48), Anchor::end, "halo");
    const double right = to_pixels(kRight);
    labels.keep_free({right - kCharacter * static_cast<double>(std::min<size_t>(48, width_of(name.text))), name.y - 15,
                      right, name.y});
  }
}

// The time that its own ceiling allows stands above a point: its bandwidth at its footprint, or its dtype's peak.
double own_roof(const RooflinePoint& point) {
  const auto& roof = point.series->roof;
  if (!roof) return 0;
  return roof->bound == Bound::memory ? roof->value * point.intensity : roof->value;
}

struct Curve {
  std::optional<double> SweepPoint::*time_s;
  std::string SweepPoint::*implementation;
  const char *name, *colour, *dash;
  Shape shape;
};
const std::array<Curve, 3> kCurves = {
    {{&SweepPoint::cpu_s, &SweepPoint::cpu_impl, "CPU", "cpu", "", Shape::circle},
     {&SweepPoint::gpu_call_s, &SweepPoint::gpu_impl, "GPU call", "gpu", "", Shape::diamond},
     {&SweepPoint::gpu_end_to_end_s, &SweepPoint::gpu_impl, "end to end", "gpu", " dash", Shape::square}}};

struct CurvePlot {
  Svg svg;
  const BreakEvenRow& row;
  LogAxis x, y;
  double shown_s(const SweepPoint& point, double time_s) const {
    return row.per_sample() ? time_s / static_cast<double>(point.size) : time_s;
  }
};

void draw(CurvePlot& plot, const Curve& curve) {
  std::vector<Point> points;
  const auto each = [&](auto&& use) {
    for (const SweepPoint& point : plot.row.sweep->points)
      if (const auto& time_s = point.*curve.time_s)
        use(point, *time_s, Point{plot.x(static_cast<double>(point.size)), plot.y(plot.shown_s(point, *time_s))});
  };
  each([&](const SweepPoint&, double, Point at) { points.push_back(at); });
  plot.svg.path(points, std::string("l-") + curve.colour + curve.dash);
  each([&](const SweepPoint& point, double time_s, Point at) {
    const std::string& by = point.*curve.implementation;
    const std::string sample = plot.row.per_sample() ? ", " + seconds(plot.shown_s(point, time_s)) + " a sample" : "";
    plot.svg.marker(
        at, curve.shape, std::string("f-") + curve.colour,
        fmt::format("{} {}: {} {}{}{}", plot.row.sweep->size_name, size_text(static_cast<double>(point.size)),
                    curve.name, seconds(time_s), sample, by.empty() ? "" : " (" + by + ")"));
  });
}

// A tick at each size where there is room, otherwise at decades.
std::vector<double> size_ticks(const Sweep& sweep, const LogAxis& x) {
  constexpr double kMinDistance = 9;  // percent between two ticks
  std::vector<double> ticks;
  for (const SweepPoint& point : sweep.points) {
    const auto size = static_cast<double>(point.size);
    if (!ticks.empty() && x(size) - x(ticks.back()) < kMinDistance) return x.decades(5);
    ticks.push_back(size);
  }
  return ticks;
}

// Of very many points every second, third, ... and all that are suspect: more would hide each other.
Roofline thinned(const Roofline& all) {
  constexpr size_t kMaxPoints = 400;
  const size_t step = 1 + all.points.size() / kMaxPoints;
  Roofline some = all;
  some.points.clear();
  for (size_t i = 0; i < all.points.size(); ++i)
    if (i % step == 0 || all.points[i].suspect) some.points.push_back(all.points[i]);
  return some;
}

}  // namespace

Chart roofline_chart(const Roofline& all, size_t number) {
  const Roofline roofline = thinned(all);
  double low = 1e300, high = 0, left = 0.05, right = 5000;
  for (const RooflinePoint& point : roofline.points) {
    low = std::min(low, point.rate);
    high = std::max(high, point.rate);
    left = std::min(left, point.intensity / 2);
    right = std::max(right, point.intensity * 2);
  }
  for (const ComputeRoof& roof : roofline.compute) high = std::max(high, roof.ceiling->value);
  Plot plot{{},
            {left, right, kLeft, kRight},
            LogAxis::round(0.5 * low, high, kBottom, kTop),
            roofline.device == Device::cpu ? "cpu" : "gpu"};
  Labels labels(plot.svg, {0, kTop, kNarrow, kBottom});
  axes(plot, labels, roofline);
  for (const RooflinePoint& p : roofline.points) {
    const double x = to_pixels(plot.x(p.intensity)), y = plot.y(p.rate);
    labels.keep_free({x - 6, y - 6, x + 6, y + 6});
  }
  const double peak = roofline.compute.empty() ? high : roofline.compute.front().ceiling->value;
  if (roofline.bandwidth) memory_roof(plot, labels, roofline.bandwidth->value, peak, "l-" + plot.colour);
  if (roofline.cache_bandwidth)
    memory_roof(plot, labels, roofline.cache_bandwidth->value, peak, "l-" + plot.colour + " dots");
  compute_roofs(plot, labels, roofline);
  const auto shapes = shapes_of(roofline);
  for (const RooflinePoint& p : roofline.points) {
    const Point at{plot.x(p.intensity), plot.y(p.rate)};
    const Summary& summary = p.series->summary;
    const double own = own_roof(p);
    plot.svg.line({at.first, plot.y(p.job->flops / summary.hi_s)}, {at.first, plot.y(p.job->flops / summary.lo_s)},
                  "whisker");
    if (p.cached && own > p.rate && own <= plot.y.high())  // its distance to the slope of its own footprint
      plot.svg.line(at, {at.first, plot.y(own)}, "l-" + plot.colour + " thin dots");
    const std::string paint = p.suspect ? "f-bad" : p.cached ? "hollow l-" + plot.colour : "f-" + plot.colour;
    plot.svg.marker(
        at, shapes.at(p.job->dtype), paint,
        fmt::format("{}: {}, {}{}{} ({}: {} to {})", p.job->name, si(p.rate, "FLOP/s"), roof_text(*p.series),
                    p.cached ? ", in a cache" : "", p.suspect ? ", suspect: no result" : "", summary.interval,
                    seconds(summary.lo_s), seconds(summary.hi_s)));
  }
  for (const bool suspect : {true, false})  // labels that are placed first get the best places
    for (const RooflinePoint& p : roofline.points)
      if (p.suspect == suspect)
        labels.put({plot.x(p.intensity), plot.y(p.rate)}, p.job->op + (suspect ? " (suspect)" : ""),
                   suspect ? "f-bad" : "");
  std::string description =
      "FLOP per second against arithmetic intensity, both logarithmic, with the ceilings of this run. Hollow marks "
      "have "
      "their data in a cache: not the slope of memory but a dotted line above them ends at their own ceiling. "
      "Whiskers: "
      "the interval of the time.";
  if (roofline.points.size() < all.points.size())
    description += fmt::format(" {} of {} points are drawn.", roofline.points.size(), all.points.size());
  return std::move(plot.svg).chart(numbered("roofline_" + plot.colour, number),
                                   "Roofline, " + named_of(to_text(roofline.device), roofline.machine),
                                   std::move(description), kWidth, static_cast<int>(kBottom) + 64);
}

Chart break_even_chart(const BreakEvenRow& row, size_t number) {
  constexpr double kPlotLeft = 1, kPlotRight = 99, kPlotTop = 72, kPlotBottom = 246;
  const Sweep& sweep = *row.sweep;
  double low = 1e300, high = 0;
  for (const SweepPoint& point : sweep.points)
    for (const Curve& curve : kCurves)
      if (const auto& time_s = point.*curve.time_s) {
        const double shown = row.per_sample() ? *time_s / static_cast<double>(point.size) : *time_s;
        low = std::min(low, shown);
        high = std::max(high, shown);
      }
  if (high == 0) low = high = 1;
  CurvePlot plot{
      {},
      row,
      LogAxis(static_cast<double>(sweep.points.front().size), static_cast<double>(sweep.points.back().size), 14, 95),
      LogAxis::round(low, high, kPlotBottom, kPlotTop)};
  Svg& svg = plot.svg;
  for (const double value : plot.y.decades()) {
    svg.line({kPlotLeft, plot.y(value)}, {kPlotRight, plot.y(value)}, "grid");
    tick_text(svg, plot.y(value), si(value, "s", 1));
  }
  for (const double value : size_ticks(sweep, plot.x)) {
    svg.line({plot.x(value), kPlotTop}, {plot.x(value), kPlotBottom}, "grid");
    svg.text({plot.x(value), kPlotBottom + 16}, size_text(value), Anchor::middle, "m");
  }
  svg.text({0, 14}, elided(sweep.op, 42), Anchor::start, "h");
  svg.text({0, 30}, elided(fixed_text(sweep), 48), Anchor::start, "m");
  svg.text({50, kPlotBottom + 32}, elided(sweep.size_name, 24) + (row.per_sample() ? "; time of a sample" : "; time"),
           Anchor::middle, "m");
  std::vector<LegendEntry> entries;
  for (const Curve& curve : kCurves)
    if (row.gpu || curve.time_s == &SweepPoint::cpu_s)
      entries.push_back(
          {*curve.dash ? LegendEntry::dashed : LegendEntry::line, std::string("l-") + curve.colour, curve.name});
  legend(svg, 2, 48, entries);
  // Between these sizes the GPU overtakes: a band, since where exactly was not measured.
  for (const BreakEven& at : {row.resident, row.with_copies})
    if (at.kind == BreakEven::Kind::between)
      svg.rect(plot.x(at.above), kPlotTop, plot.x(at.size) - plot.x(at.above), kPlotBottom - kPlotTop, "band");
  for (const Curve& curve : kCurves) draw(plot, curve);
  int height = static_cast<int>(kPlotBottom) + 50;
  const auto line = [&](const std::string& text) {
    svg.text({0, static_cast<double>(height)}, elided(text, 54));
    height += 16;
  };
  if (row.gpu) {
    line("resident: " + break_even_text(row.resident, sweep.size_name));
    line("with copies: " + break_even_text(row.with_copies, sweep.size_name));
  } else {
    line("no GPU in this run");
  }
  return std::move(svg).chart(
      numbered("break_even", number), "Break-even of " + sweep.op,
      fmt::format("{} against {}, both logarithmic.", row.per_sample() ? "Time of a sample" : "Time", sweep.size_name),
      380, height - 6);
}

}  // namespace duet::reports
