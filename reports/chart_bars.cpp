// SPDX-License-Identifier: Apache-2.0
// Charts of horizontal bars: speedup on a log axis from 1x, bandwidth as a share of its ceiling, the ops of a step.
#include <fmt/format.h>

#include <algorithm>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/svg.h"

namespace duet::reports {
namespace {

constexpr int kWidth = 1130;
constexpr size_t kLabel = 52;  // characters of a row's label

// Pixels for the longest label, within limits.
double left_margin(const std::vector<std::string>& labels) {
  size_t longest = 0;
  for (const std::string& label : labels) longest = std::max(longest, std::min(width_of(label), kLabel));
  return std::clamp(24 + 6.5 * static_cast<double>(longest), 160.0, 370.0);
}

std::string interval_text(const Interval& ratio) {
  return fmt::format("{} ({}: {} to {})", times(ratio.value), ratio.label, times(ratio.lo), times(ratio.hi));
}

void whisker(Svg& svg, const LogAxis& x, const Interval& ratio, double y) {
  const std::string loose = ratio.confident() ? "" : " dots";
  for (const std::string& cls : {std::string("under"), "whisker" + loose}) {
    svg.line({x(ratio.lo), y}, {x(ratio.hi), y}, cls);
    for (const double end : {ratio.lo, ratio.hi}) svg.line({x(end), y - 2.8}, {x(end), y + 2.8}, cls);
  }
}

void speedup_bars(Svg& svg, const LogAxis& x, const SpeedupRow& row, double y) {
  for (const Scope scope : kScopes) {
    const size_t slot = static_cast<size_t>(scope);
    if (!row.ratio[slot]) continue;
    const Interval& ratio = *row.ratio[slot];
    const double top = y + 4 + 10 * static_cast<double>(slot);
    const auto [from, to] = std::minmax({x(1.0), x(ratio.value)});
    svg.rect(from, top, to - from, 8.5, fmt::format("f-s{}", slot),
             fmt::format("{}, {}: {}", row.case_name, to_text(scope), interval_text(ratio)));
    whisker(svg, x, ratio, top + 4.2);
    const bool ahead = ratio.value >= 1;
    svg.text({ahead ? std::max(to, x(ratio.hi)) + 5 : std::min(from, x(ratio.lo)) - 5, top + 8},
             times(ratio.value) + " " + marks_text(row), ahead ? Anchor::start : Anchor::end, "small");
  }
}

Chart speedup_chart(const std::vector<const SpeedupRow*>& rows, size_t number) {
  constexpr double kTop = 34, kRow = 37;
  const double bottom = kTop + kRow * static_cast<double>(rows.size());
  double low = 1, high = 1;
  bool loose = false, confident = false;
  std::vector<std::string> labels;
  for (const SpeedupRow* row : rows) {
    labels.push_back(case_text(row->case_name));
    labels.push_back(row->cpu.job->impl + " → " + row->gpu.job->impl);
    for (const auto& ratio : row->ratio)
      if (ratio) {
        low = std::min(low, ratio->lo);
        high = std::max(high, ratio->hi);
        (ratio->confident() ? confident : loose) = true;
      }
  }
  const double left = left_margin(labels);
  Svg svg;
  const LogAxis x = LogAxis::round(low, high, left, kWidth - 60);
  for (const double value : x.decades()) {
    svg.line({x(value), kTop}, {x(value), bottom}, "grid");
    svg.text({x(value), bottom + 16}, fmt::format("{:g}×", value), Anchor::middle, "m");
  }
  std::vector<LegendEntry> entries = {{LegendEntry::bar, "f-s0", "kernel"},
                                      {LegendEntry::bar, "f-s1", "call (launch + wait)"},
                                      {LegendEntry::bar, "f-s2", "end to end (with copies)"}};
  if (confident) entries.push_back({LegendEntry::line, "whisker", "95 % interval"});
  if (loose) entries.push_back({LegendEntry::dotted, "whisker", "min–max"});
  legend(svg, {left, 16}, entries);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = kTop + kRow * static_cast<double>(i);
    svg.text({left - 10, y + 17}, elided(labels[2 * i], kLabel), Anchor::end);
    svg.text({left - 10, y + 30}, elided(labels[2 * i + 1], kLabel), Anchor::end, "m");
    speedup_bars(svg, x, *rows[i], y);
  }
  svg.line({x(1.0), kTop - 6}, {x(1.0), bottom}, "one");
  svg.text({x(1.0) - 8, bottom + 34}, "← CPU faster", Anchor::end, "m halo");
  svg.text({x(1.0) + 8, bottom + 34}, "GPU faster →", Anchor::start, "m halo");
  return std::move(svg).chart(numbered("speedup", number), "Speedup of the GPU over the CPU",
                              "Bars start at 1; to the right the GPU is faster. Whiskers show the interval of the "
                              "ratio, solid 95 %, dotted min–max. * the CPU is far below its own roof.",
                              kWidth, static_cast<int>(bottom) + 44);
}

Chart bandwidth_chart(const std::vector<const BandwidthRow*>& rows, size_t number) {
  constexpr double kTop = 30, kBar = 11, kGap = 9, kMaxFraction = 1.25;  // end of the axis
  std::vector<std::string> labels;
  double bottom = kTop;
  for (const BandwidthRow* row : rows) {
    labels.push_back(case_text(row->case_name));
    bottom += kGap + kBar * static_cast<double>(row->bars.size());
  }
  const double left = left_margin(labels);
  const double scale = (kWidth - 150 - left) / kMaxFraction;
  Svg svg;
  for (int percent = 0; percent <= 125; percent += 25) {
    const double at = left + scale * percent / 100;
    svg.line({at, kTop}, {at, bottom}, percent == 100 ? "one" : "grid");
    svg.text({at, bottom + 16}, fmt::format("{} %", percent), Anchor::middle, "m");
  }
  const auto any = [&](auto&& test) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const BandwidthRow* row) { return std::any_of(row->bars.begin(), row->bars.end(), test); });
  };
  std::vector<LegendEntry> entries;
  if (any([](const auto& bar) { return !bar.suspect && bar.job->device == Device::cpu; }))
    entries.push_back({LegendEntry::bar, "f-cpu", "CPU, call"});
  if (any([](const auto& bar) { return !bar.suspect && bar.job->device == Device::gpu; }))
    entries.push_back({LegendEntry::bar, "f-gpu", "GPU, kernel"});
  if (any([](const auto& bar) { return bar.suspect; }))
    entries.push_back({LegendEntry::bar, "f-bad", "over its ceiling: not a result"});
  legend(svg, {left, 16}, entries);
  double y = kTop;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double height = kGap + kBar * static_cast<double>(rows[i]->bars.size());
    svg.text({left - 10, y + height / 2 + 4}, elided(labels[i], kLabel), Anchor::end);
    double top = y + kGap / 2;
    for (const BandwidthRow::Bar& bar : rows[i]->bars) {
      const double length = scale * std::min(bar.fraction, kMaxFraction);
      svg.rect(left, top, length, kBar - 1.5,
               bar.suspect                      ? "f-bad"
               : bar.job->device == Device::cpu ? "f-cpu"
                                                : "f-gpu",
               fmt::format("{}: {}, {} of {}", bar.job->name, si(bar.byte_per_s, "B/s"), share(bar.fraction),
                           bar.series->roof->ceiling));
      svg.text(
          {left + length + 6, top + 8.5},
          fmt::format("{}  {}{}", share(bar.fraction), si(bar.byte_per_s, "B/s"), bar.suspect ? ", no result" : ""),
          Anchor::start, "small halo");
      top += kBar;
    }
    y += height;
  }
  return std::move(svg).chart(
      numbered("bandwidth", number), "Bandwidth as a share of the matching ceiling",
      fmt::format("Memory-bound cases. More than {:.0f} % is an error to explain, not a result.",
                  100 * results::kSuspectFraction),
      kWidth, static_cast<int>(bottom) + 28);
}

// Splits rows into charts of at most rows_per_chart, numbered from `before` + 1.
template <class Row>
std::vector<Chart> in_groups(const std::vector<const Row*>& rows, size_t rows_per_chart,
                             Chart (*draw)(const std::vector<const Row*>&, size_t), size_t before = 0) {
  std::vector<Chart> charts;
  for (size_t first = 0; first < rows.size(); first += rows_per_chart) {
    const size_t last = std::min(rows.size(), first + rows_per_chart);
    charts.push_back(
        draw({rows.begin() + static_cast<std::ptrdiff_t>(first), rows.begin() + static_cast<std::ptrdiff_t>(last)},
             before + charts.size() + 1));
  }
  return charts;
}

constexpr size_t kColours = 8;  // p0 ... p7
constexpr const char* kOther = "other";

// The ops of all steps that get a colour of their own: those that take the largest share, so that no colour stands for
// two.
std::vector<std::string> op_names(const std::vector<const StepRow*>& rows) {
  std::vector<std::pair<double, std::string>> shares;  // summed over steps
  for (const StepRow* row : rows)
    for (const auto& [op, time_s] : row->step().nodes_s) {
      auto same = std::find_if(shares.begin(), shares.end(), [&op = op](const auto& s) { return s.second == op; });
      if (same == shares.end()) same = shares.insert(shares.end(), {0, op});
      same->first += time_s / row->step_s;
    }
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::erase_if(shares, [](const auto& s) { return s.first == 0; });
  std::vector<std::string> names;
  for (const auto& [share, name] : shares) names.push_back(name);
  if (names.size() > kColours) {
    names.resize(kColours - 1);
    names.push_back(kOther);
  }
  return names;
}

// A step's times by op, in the order of `names`; the rest added up as the last one.
std::vector<double> op_times(const Step& step, const std::vector<std::string>& names) {
  std::vector<double> times_s(names.size());
  for (const auto& [op, time_s] : step.nodes_s) {
    const auto at = std::find(names.begin(), names.end(), op);
    if (time_s > 0) times_s[static_cast<size_t>((at == names.end() ? at - 1 : at) - names.begin())] += time_s;
  }
  return times_s;
}

std::string step_text(const StepRow& row) {
  std::string text = fmt::format("step {}, nodes {}, residual {:+.1f} %", seconds(row.step_s), seconds(row.sum_s),
                                 100 * row.residual_s() / row.step_s);
  if (row.has_phases())
    text += fmt::format(" ({:+.1f} % within phases, {:+.1f} % beyond them)", 100 * row.within_phases_s() / row.step_s,
                        100 * row.between_phases_s() / row.step_s);
  if (!row.problem.empty() && row.explained) text += "; " + row.problem;
  return text;
}

// The phases under the ops, at the same scale.
void phase_boxes(Svg& svg, const StepRow& row, double left, double y, double scale) {
  double x = left;
  for (const auto& [phase, time_s] : row.step().phases_s) {
    const double width = time_s * scale;
    svg.rect(x, y, width, 14, "outline", fmt::format("{}: {}", phase, seconds(time_s)));
    for (const std::string& text : {phase + " " + seconds(time_s), seconds(time_s)})
      if (6.0 * static_cast<double>(width_of(text)) < width - 4) {
        svg.text({x + width / 2, y + 10.5}, text, Anchor::middle, "small");
        break;
      }
    x += width;
  }
}

Chart step_chart(const std::vector<const StepRow*>& rows, size_t number) {
  constexpr double kRow = 82, kHeight = 30;
  const std::vector<std::string> names = op_names(rows);
  std::vector<std::string> labels;
  for (const StepRow* row : rows) labels.push_back(row->model);
  const double left = left_margin(labels), room = kWidth - 80 - left;
  Svg svg;
  svg.raw(
      "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" class=\"hatch\"/></pattern></defs>");
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < names.size(); ++i) entries.push_back({LegendEntry::bar, fmt::format("f-p{}", i), names[i]});
  entries.push_back({LegendEntry::bar, "f-residual", "residual (hatched)"});
  const double top = legend(svg, {left, 16}, entries, kWidth) + 18;
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = *rows[i];
    const double y = top + kRow * static_cast<double>(i),
                 scale = room / std::max({row.step_s, row.sum_s, row.phases_s});
    svg.text({left - 10, y + 14}, row.label, Anchor::end);
    svg.text({left - 10, y + 28}, elided(labels[i], kLabel), Anchor::end, "m");
    double x = left;
    const std::vector<double> times_s = op_times(row.step(), names);
    for (size_t op = 0; op < names.size(); ++op) {
      const double width = times_s[op] * scale;
      if (width == 0) continue;
      svg.rect(x, y, width, kHeight, fmt::format("f-p{}", op),
               fmt::format("{}: {}, {} of the step", names[op], seconds(times_s[op]), share(times_s[op] / row.step_s)));
      if (width > 44) svg.text({x + width / 2, y + 19}, share(times_s[op] / row.step_s), Anchor::middle, "on");
      x += width;
    }
    if (row.residual_s() > 0)
      svg.raw(
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"url(#hatch)\">"
                      "<title>residual: {}</title></rect>",
                      x, y, row.residual_s() * scale, kHeight, seconds(row.residual_s())));
    else  // the nodes take longer by themselves than together: the step ends before their sum
      svg.line({left + row.step_s * scale, y - 3}, {left + row.step_s * scale, y + kHeight + 3}, "one");
    phase_boxes(svg, row, left, y + kHeight + 2, scale);
    svg.text({left, y + kHeight + 30}, step_text(row), Anchor::start, "m");
  }
  return std::move(svg).chart(
      numbered("steps", number), "Training step as the sum of its nodes",
      "Each bar is one step, drawn to its own length; the hatched part is the residual. Below it, its phases.", kWidth,
      static_cast<int>(top + kRow * static_cast<double>(rows.size())) + 4);
}

}  // namespace

std::string numbered(const std::string& stem, size_t number) {
  return number == 1 ? stem : fmt::format("{}_{}", stem, number);
}

std::vector<Chart> speedup_charts(const Analysis& analysis, size_t rows_per_chart) {
  std::vector<const SpeedupRow*> rows;
  for (const SpeedupRow& row : analysis.speedups)
    if (row.primary) rows.push_back(&row);
  return in_groups(rows, rows_per_chart, speedup_chart);
}

std::vector<Chart> bandwidth_charts(const Analysis& analysis, size_t rows_per_chart) {
  std::vector<const BandwidthRow*> rows;
  for (const BandwidthRow& row : analysis.bandwidth) rows.push_back(&row);
  return in_groups(rows, rows_per_chart, bandwidth_chart);
}

std::vector<Chart> step_charts(const std::vector<StepRow>& rows, size_t rows_per_chart) {
  std::vector<const StepRow*> largest, others;
  for (const StepRow& row : rows) (row.primary ? largest : others).push_back(&row);
  std::vector<Chart> charts = in_groups(largest, rows_per_chart, step_chart);
  for (Chart& chart : in_groups(others, rows_per_chart, step_chart, charts.size())) charts.push_back(std::move(chart));
  return charts;
}

}  // namespace duet::reports
