// SPDX-License-Identifier: Apache-2.0
// Charts of horizontal bars: speedups on a log axis from 1x and bandwidth as a share of its ceiling, by family and case
// by case, and the ops of a step. Each row is a line of text with its bars below, so that it fits a narrow page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/join.h"
#include "reports/svg.h"

namespace duet::reports {
namespace {

constexpr int kWidth = 900;    // pixels of a chart in a file of its own
constexpr size_t kLabel = 48;  // characters that fit at kNarrow
constexpr double kLeft = 1, kRight = 99;
constexpr size_t kMaxCases = 400;  // in all charts of a kind: each takes 1.5 kB, twice where Markdown is written
constexpr size_t kMaxDots = 150;   // of a family

// "GPU 12.3×", "CPU 3.2×": who is faster, and how much.
std::string ahead_text(double ratio) { return ratio >= 1 ? "GPU " + times(ratio) : "CPU " + times(1 / ratio); }
// Colours: of a value without an interval, and of a ratio.
const char* side_of(double ratio) { return ratio >= 1 ? "gpu" : "cpu"; }
const char* colour_of(const Interval& ratio) { return winner(ratio) == Winner::level ? "muted" : side_of(ratio.value); }

std::string interval_text(const Interval& ratio) {
  return fmt::format("{}{} ({}: {} to {})", winner(ratio) == Winner::level ? "level, " : "", ahead_text(ratio.value),
                     ratio.label, ahead_text(ratio.lo), ahead_text(ratio.hi));
}

// Names of the two hatches of a chart.
struct Hatches {
  std::string cpu, gpu;
  Hatches(Svg& svg, const std::string& stem) : cpu("cpu-" + stem), gpu("gpu-" + stem) {
    svg.pattern(cpu, "l-cpu");
    svg.pattern(gpu, "l-gpu");
  }
  const std::string& of(double ratio) const { return ratio >= 1 ? gpu : cpu; }
};

// A value beside the end of a bar that starts at x(1): outwards, or inside where there is no room.
void value_text(Svg& svg, double end, bool to_the_right, double y, const std::string& text) {
  const double room = to_the_right ? kRight - end : end - kLeft;
  const bool outside = room * kNarrow / 100 > kCharacter * static_cast<double>(width_of(text)) + 6;
  const bool start = to_the_right == outside;
  svg.text({end, y}, text, start ? Anchor::start : Anchor::end, "halo", start ? 5 : -5);
}

// The axis of ratios: lines at decades, and which side is faster where.
void ratio_axis(Svg& svg, const LogAxis& x, double top, double bottom) {
  for (const double value : x.decades(6)) {
    svg.line({x(value), top}, {x(value), bottom}, "grid");
    const Anchor anchor = x(value) < 5 ? Anchor::start : x(value) > 95 ? Anchor::end : Anchor::middle;
    svg.text({x(value), bottom + 15}, fmt::format("{:g}×", value < 1 ? 1 / value : value), anchor, "m");
  }
  svg.line({x(1.0), top - 4}, {x(1.0), bottom}, "one");
  if (x.low() < 1) svg.text({x(1.0), bottom + 31}, "← CPU faster", Anchor::end, "m halo", -6);
  if (x.high() > 1)
    svg.text({x(1.0), bottom + 31}, "GPU faster →", x(1.0) > 60 ? Anchor::end : Anchor::start, "m halo",
             x(1.0) > 60 ? -6 : 6);
}

// --- families

void spread_line(Svg& svg, const LogAxis& x, const Spread& spread, double y) {
  for (const char* cls : {"under", "whisker"}) svg.line({x(spread.lo()), y}, {x(spread.hi()), y}, cls);
  for (const double end : {spread.lo(), spread.hi()}) svg.line({x(end), y - 3}, {x(end), y + 3}, "whisker");
}

std::string spread_text(const Spread& spread) {
  return fmt::format("median {}, from {} to {}", ahead_text(spread.median()), ahead_text(spread.lo()),
                     ahead_text(spread.hi()));
}

// Who wins how many of a family's cases.
std::string where_text(const FamilyTotal& family) {
  const size_t all = family.cases, gpu = family.gpu_wins, cpu = family.cpu_wins;
  if (gpu == all || cpu == all) return all == 1 ? "in the only case" : fmt::format("in all {}", all);
  if (gpu > 0) return fmt::format("GPU ahead in {} of {}", gpu, all);
  if (cpu > 0) return fmt::format("CPU ahead in {} of {}", cpu, all);
  return all == 1 ? "level" : fmt::format("all {} level", all);
}

void family_row(Svg& svg, const LogAxis& x, const Hatches& hatches, const FamilyTotal& family, double y) {
  const Spread& call = *family.call;
  const double median = call.median();
  svg.text({kLeft, y + 12}, elided(family.family, 20), Anchor::start, "h halo");
  svg.text({kRight, y + 12}, ahead_text(median) + ", " + where_text(family), Anchor::end, "halo");
  const auto [from, to] = std::minmax({x(1.0), x(median)});
  svg.rect(from, y + 18, to - from, 11, fmt::format("f-{}", side_of(median)),
           family.family + ", call: " + spread_text(call));
  spread_line(svg, x, call, y + 23.5);
  if (family.end_to_end) {
    const double copies = family.end_to_end->median();
    const auto [left, right] = std::minmax({x(1.0), x(copies)});
    svg.hatched(left, y + 31, right - left, 8, hatches.of(copies), fmt::format("l-{} thin", side_of(copies)),
                family.family + ", end to end: " + spread_text(*family.end_to_end));
  }
  const size_t step = 1 + call.values.size() / kMaxDots;
  for (size_t i = 0; i < call.values.size(); i += step)
    svg.dot({x(call.values[i]), y + 44}, fmt::format("f-{}", side_of(call.values[i])));
}

// --- cases

void case_row(Svg& svg, const LogAxis& x, const Hatches& hatches, const SpeedupRow& row, double y) {
  const std::string machines =
      row.across_machines ? fmt::format(" ({} against {})", machine_of(*row.cpu.job), machine_of(*row.gpu.job)) : "";
  svg.text({kLeft, y + 11}, elided(case_text(row.case_name) + machines, kLabel), Anchor::start, "halo");
  double top = y + 15;
  for (const Scope scope : kScopes) {
    const auto& found = row.ratio[static_cast<size_t>(scope)];
    if (!found) continue;
    const Interval& ratio = *found;
    const auto [from, to] = std::minmax({x(1.0), x(ratio.value)});
    const std::string tip = to_text(scope) + ": " + interval_text(ratio);
    const std::string side = colour_of(ratio);
    if (scope == Scope::kernel)
      svg.rect(from, top, to - from, 9, "back thin l-" + side, tip);
    else if (scope == Scope::call)
      svg.rect(from, top, to - from, 9, "f-" + side, tip);
    else
      svg.hatched(from, top, to - from, 9, hatches.of(ratio.value), "thin l-" + side, tip);
    // An interval narrower than its line shows nothing.
    if (x(ratio.hi) - x(ratio.lo) > 0.6)
      svg.line({x(ratio.lo), top + 4.5}, {x(ratio.hi), top + 4.5}, ratio.confident() ? "whisker" : "whisker dots");
    const bool ahead = ratio.value >= 1;
    value_text(svg, ahead ? std::max(to, x(ratio.hi)) : std::min(from, x(ratio.lo)), ahead, top + 8.5,
               times(ahead ? ratio.value : 1 / ratio.value) + marks_text(row));
    top += 12;
  }
}

double case_height(const SpeedupRow& row) {
  const auto bars =
      std::count_if(row.ratio.begin(), row.ratio.end(), [](const auto& ratio) { return ratio.has_value(); });
  return 20 + 12 * static_cast<double>(bars);
}

Chart speedup_chart(const std::vector<const SpeedupRow*>& rows, const std::string& stem, const std::string& title) {
  double low = 1, high = 1;
  for (const SpeedupRow* row : rows)
    for (const auto& ratio : row->ratio)
      if (ratio) {
        low = std::min(low, ratio->lo);
        high = std::max(high, ratio->hi);
      }
  const LogAxis x = LogAxis::round(low, high, kLeft, kRight);
  Svg svg, bars;
  const Hatches hatches(svg, stem);
  const double top = legend(svg, 2, 14,
                            {{LegendEntry::bar, "back thin l-gpu", "kernel"},
                             {LegendEntry::bar, "f-gpu", "call"},
                             {LegendEntry::hatch, "thin l-gpu", "end to end", Shape::circle, hatches.gpu},
                             {LegendEntry::bar, "f-cpu", "CPU faster"}}) +
                     14;
  double y = top;
  for (const SpeedupRow* row : rows) {
    case_row(bars, x, hatches, *row, y);
    y += case_height(*row);
  }
  ratio_axis(svg, x, top, y);
  svg.raw(bars.marks());
  return std::move(svg).chart(stem, title,
                              "Bars start at 1 on a logarithmic axis; to the right the GPU is faster, to the left the "
                              "CPU. Thin lines show the interval of the ratio, dotted where it is min-max. * the CPU "
                              "is far below its own roof.",
                              kWidth, static_cast<int>(y) + 40);
}

// --- groups of cases by family

// Where there are too many cases for charts, of each family those at both ends; the tables have all.
template <class Row>
struct Drawn {
  std::vector<const Row*> rows;
  size_t left_out = 0;
};
template <class Row>
Drawn<Row> drawn(std::vector<const Row*> rows, size_t max_rows) {
  if (rows.size() <= max_rows) return {std::move(rows)};
  const size_t left_out = rows.size() - max_rows, head = (max_rows + 1) / 2;
  const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(head);
  rows.erase(begin, begin + static_cast<std::ptrdiff_t>(left_out));
  return {std::move(rows), left_out};
}

std::string left_out_text(size_t left_out) {
  return left_out == 0 ? "" : fmt::format("; {} between the best and the worst are in the table alone", left_out);
}

// Charts of at most rows_per_chart rows, numbered across all groups.
template <class Row>
void add_charts(const std::vector<const Row*>& rows, size_t rows_per_chart, const std::string& stem, size_t& number,
                const std::string& title,
                Chart (*draw)(const std::vector<const Row*>&, const std::string&, const std::string&),
                std::vector<Chart>& charts) {
  for (size_t first = 0; first < rows.size(); first += rows_per_chart) {
    const size_t last = std::min(rows.size(), first + rows_per_chart);
    charts.push_back(
        draw({rows.begin() + static_cast<std::ptrdiff_t>(first), rows.begin() + static_cast<std::ptrdiff_t>(last)},
             numbered(stem, ++number), title));
  }
}

// --- bandwidth

constexpr double kMaxFraction = 1.25;  // end of the axis
double at_fraction(double fraction) {
  return kLeft + (kRight - kLeft) * std::min(fraction, kMaxFraction) / kMaxFraction;
}

void fraction_axis(Svg& svg, double top, double bottom) {
  for (int percent = 0; percent <= 125; percent += 25) {
    const double at = at_fraction(percent / 100.0);
    svg.line({at, top}, {at, bottom}, percent == 100 ? "one" : "grid");
    const Anchor anchor = percent == 0 ? Anchor::start : percent == 125 ? Anchor::end : Anchor::middle;
    svg.text({at, bottom + 15}, fmt::format("{} %", percent), anchor, "m");
  }
}

Chart bandwidth_chart(const std::vector<const BandwidthRow*>& rows, const std::string& stem, const std::string& title) {
  constexpr double kBar = 12;
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
  Svg svg, bars;
  const double top = legend(svg, 2, 14, entries) + 10;
  double y = top;
  for (const BandwidthRow* row : rows) {
    bars.text({kLeft, y + 13}, elided(case_text(row->case_name), kLabel), Anchor::start, "halo");
    y += 17;
    for (const BandwidthRow::Bar& bar : row->bars) {
      const double end = at_fraction(bar.fraction);
      const char* colour = bar.suspect ? "f-bad" : bar.job->device == Device::cpu ? "f-cpu" : "f-gpu";
      bars.rect(kLeft, y, end - kLeft, kBar - 2.5, colour,
                fmt::format("{}: {}, {} of {}", impl_text(*bar.job), si(bar.byte_per_s, "B/s"), share(bar.fraction),
                            bar.series->roof->ceiling));
      value_text(
          bars, end, true, y + 9,
          fmt::format("{}, {}{}", share(bar.fraction), si(bar.byte_per_s, "B/s"), bar.suspect ? ", no result" : ""));
      y += kBar;
    }
  }
  fraction_axis(svg, top, y + 4);
  svg.raw(bars.marks());
  return std::move(svg).chart(
      stem, title,
      fmt::format("Memory-bound cases. More than {:.0f} % is an error to explain, not a result.",
                  100 * results::kSuspectFraction),
      kWidth, static_cast<int>(y) + 26);
}

// --- training steps

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

std::vector<std::string> step_texts(const StepRow& row) {
  std::vector<std::string> lines = {fmt::format("step {}, nodes {}, residual {:+.1f} %", seconds(row.step_s),
                                                seconds(row.sum_s), 100 * row.residual_s() / row.step_s)};
  if (row.has_phases())
    lines.push_back(fmt::format("residual {:+.1f} % within phases, {:+.1f} % beyond them",
                                100 * row.within_phases_s() / row.step_s, 100 * row.between_phases_s() / row.step_s));
  if (!row.problem.empty() && row.explained) lines.push_back(elided(row.problem, kLabel));
  return lines;
}

// Whether a text fits into a part of a bar at the narrowest.
bool fits(const std::string& text, double percent) {
  return kCharacter * static_cast<double>(width_of(text)) + 4 < percent * kNarrow / 100;
}

// The phases under the ops, at the same scale.
void phase_boxes(Svg& svg, const StepRow& row, double y, double scale) {
  double x = kLeft;
  for (const auto& [phase, time_s] : row.step().phases_s) {
    const double width = time_s * scale;
    svg.rect(x, y, width, 15, "outline", fmt::format("{}: {}", phase, seconds(time_s)));
    for (const std::string& text : {phase + " " + seconds(time_s), seconds(time_s)})
      if (fits(text, width)) {
        svg.text({x + width / 2, y + 11.5}, text, Anchor::middle);
        break;
      }
    x += width;
  }
}

Chart step_chart(const std::vector<const StepRow*>& rows, const std::string& stem, const std::string& title) {
  constexpr double kHeight = 26;
  const std::vector<std::string> names = op_names(rows);
  Svg svg;
  const std::string hatch = "residual-" + stem;
  svg.pattern(hatch, "l-residual");
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < names.size(); ++i) entries.push_back({LegendEntry::bar, fmt::format("f-p{}", i), names[i]});
  entries.push_back({LegendEntry::hatch, "thin l-residual", "residual", Shape::circle, hatch});
  double y = legend(svg, 2, 14, entries) + 14;
  for (const StepRow* drawn_row : rows) {
    const StepRow& row = *drawn_row;
    const double scale = (kRight - kLeft) / std::max({row.step_s, row.sum_s, row.phases_s});
    svg.text({kLeft, y + 12}, elided(row.label + ": " + row.model, kLabel), Anchor::start, "h");
    y += 18;
    double x = kLeft;
    const std::vector<double> times_s = op_times(row.step(), names);
    for (size_t op = 0; op < names.size(); ++op) {
      const double width = times_s[op] * scale;
      if (width == 0) continue;
      const std::string part = share(times_s[op] / row.step_s);
      svg.rect(x, y, width, kHeight, fmt::format("f-p{}", op),
               fmt::format("{}: {}, {} of the step", names[op], seconds(times_s[op]), part));
      if (fits(part, width)) svg.text({x + width / 2, y + 17}, part, Anchor::middle, "on");
      x += width;
    }
    if (row.residual_s() > 0)
      svg.hatched(x, y, row.residual_s() * scale, kHeight, hatch, "thin l-residual",
                  "residual: " + seconds(row.residual_s()));
    else  // the nodes take longer by themselves than together: the step ends before their sum
      svg.line({kLeft + row.step_s * scale, y - 3}, {kLeft + row.step_s * scale, y + kHeight + 3}, "one");
    y += kHeight + 2;
    if (row.has_phases()) {
      phase_boxes(svg, row, y, scale);
      y += 15;
    }
    for (const std::string& line : step_texts(row)) svg.text({kLeft, y += 14}, line, Anchor::start, "m");
    y += 14;
  }
  return std::move(svg).chart(
      stem, title,
      "Each bar is one step, drawn to its own length; the hatched part is the residual. Below it, its phases.", kWidth,
      static_cast<int>(y) + 2);
}

}  // namespace

std::string numbered(const std::string& stem, size_t number) {
  return number == 1 ? stem : fmt::format("{}_{}", stem, number);
}

std::optional<Chart> family_chart(const Analysis& analysis) {
  std::vector<const FamilyTotal*> families;
  double low = 1, high = 1;
  for (const FamilyTotal& family : analysis.families) {
    families.push_back(&family);
    for (const auto* spread : {&family.call, &family.end_to_end})
      if (*spread) {
        low = std::min(low, (*spread)->lo());
        high = std::max(high, (*spread)->hi());
      }
  }
  if (families.empty()) return {};
  std::stable_sort(families.begin(), families.end(),
                   [](const auto* a, const auto* b) { return a->call->median() > b->call->median(); });
  constexpr double kRow = 54;
  const LogAxis x = LogAxis::round(low, high, kLeft, kRight);
  Svg svg;
  const std::string stem = "families";
  const Hatches hatches(svg, stem);
  const double top = legend(svg, 2, 14,
                            {{LegendEntry::bar, "f-gpu", "call, median"},
                             {LegendEntry::hatch, "thin l-gpu", "with copies", Shape::circle, hatches.gpu},
                             {LegendEntry::line, "whisker", "all cases"},
                             {LegendEntry::bar, "f-cpu", "CPU faster"}}) +
                     14;
  const double bottom = top + kRow * static_cast<double>(families.size());
  ratio_axis(svg, x, top, bottom);
  for (size_t i = 0; i < families.size(); ++i)
    family_row(svg, x, hatches, *families[i], top + kRow * static_cast<double>(i));
  return std::move(svg).chart(
      stem, "Speedup of the GPU over the CPU by family",
      "Each family at the median of its cases' speedups by call, with copies below it; the thin "
      "line goes from its smallest to its largest, each dot is a case. Bars start at 1 on a "
      "logarithmic axis: to the right the GPU is faster, to the left the CPU.",
      kWidth, static_cast<int>(bottom) + 40);
}

std::vector<CaseCharts> speedup_charts(const Analysis& analysis, size_t rows_per_chart) {
  std::map<std::string, std::vector<const SpeedupRow*>> rows;
  size_t cases = 0;
  for (const SpeedupRow& row : analysis.speedups)
    if (row.primary) {
      rows[row.family].push_back(&row);
      ++cases;
    }
  std::vector<const FamilyTotal*> families;
  for (const FamilyTotal& family : analysis.families) families.push_back(&family);
  std::stable_sort(families.begin(), families.end(),
                   [](const auto* a, const auto* b) { return a->call->median() > b->call->median(); });
  const size_t max_rows = cases <= kMaxCases ? cases : std::max<size_t>(2, kMaxCases / families.size());
  std::vector<CaseCharts> groups;
  size_t number = 0;
  for (const FamilyTotal* family : families) {
    const Drawn<SpeedupRow> of_family = drawn(std::move(rows[family->family]), max_rows);
    CaseCharts group{fmt::format("{}: {}, median {} by call{}", family->family, count_of(family->cases, "case"),
                                 ahead_text(family->call->median()), left_out_text(of_family.left_out)),
                     {}};
    add_charts(of_family.rows, rows_per_chart, "speedup", number, "Speedups of " + family->family, speedup_chart,
               group.charts);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::optional<Chart> bandwidth_family_chart(const Analysis& analysis) {
  if (analysis.bandwidth_families.empty()) return {};
  constexpr double kBar = 12;
  Svg svg, bars;
  std::vector<LegendEntry> entries;
  const auto& families = analysis.bandwidth_families;
  if (std::any_of(families.begin(), families.end(), [](const auto& f) { return f.cpu.has_value(); }))
    entries.push_back({LegendEntry::bar, "f-cpu", "CPU, call"});
  if (std::any_of(families.begin(), families.end(), [](const auto& f) { return f.gpu.has_value(); }))
    entries.push_back({LegendEntry::bar, "f-gpu", "GPU, kernel"});
  entries.push_back({LegendEntry::line, "whisker", "all cases"});
  const double top = legend(svg, 2, 14, entries) + 10;
  double y = top;
  for (const FamilyShare& family : families) {
    if (!family.cpu && !family.gpu) continue;
    bars.text({kLeft, y + 13}, elided(family.family, 30), Anchor::start, "h halo");
    y += 18;
    for (const auto& [spread, colour] : {std::pair(&family.cpu, "f-cpu"), std::pair(&family.gpu, "f-gpu")}) {
      if (!*spread) continue;
      const double median = (*spread)->median(), end = at_fraction(median);
      bars.rect(kLeft, y, end - kLeft, kBar - 2.5, colour,
                fmt::format("{}: median {}, from {} to {}, {}", family.family, share(median), share((*spread)->lo()),
                            share((*spread)->hi()), count_of((*spread)->values.size(), "case")));
      const double low = at_fraction((*spread)->lo()), high = at_fraction((*spread)->hi());
      for (const char* cls : {"under", "whisker"}) bars.line({low, y + 4.7}, {high, y + 4.7}, cls);
      value_text(bars, std::max(end, high), true, y + 9, share(median));
      y += kBar;
    }
  }
  fraction_axis(svg, top, y + 4);
  svg.raw(bars.marks());
  return std::move(svg).chart("bandwidth", "Bandwidth as a share of the matching ceiling, by family",
                              "Medians of memory-bound cases; thin lines go from the smallest share to the largest.",
                              kWidth, static_cast<int>(y) + 26);
}

std::vector<CaseCharts> bandwidth_charts(const Analysis& analysis, size_t rows_per_chart) {
  std::map<std::string, std::vector<const BandwidthRow*>> rows;
  for (const BandwidthRow& row : analysis.bandwidth) rows[row.family].push_back(&row);
  const size_t cases = analysis.bandwidth.size();
  const size_t max_rows = cases <= kMaxCases ? cases : std::max<size_t>(2, kMaxCases / rows.size());
  std::vector<CaseCharts> groups;
  size_t number = 1;  // the first is the families'
  for (auto& [family, of_family] : rows) {
    const auto best = [](const BandwidthRow* row) {
      double fraction = 0;
      for (const BandwidthRow::Bar& bar : row->bars) fraction = std::max(fraction, bar.fraction);
      return fraction;
    };
    std::stable_sort(of_family.begin(), of_family.end(),
                     [&](const auto* a, const auto* b) { return best(a) > best(b); });
    const std::string all = count_of(of_family.size(), "case");
    const Drawn<BandwidthRow> some = drawn(std::move(of_family), max_rows);
    CaseCharts group{family + ": " + all + left_out_text(some.left_out), {}};
    add_charts(some.rows, rows_per_chart, "bandwidth", number, "Bandwidth of " + family, bandwidth_chart, group.charts);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<Chart> step_charts(const std::vector<StepRow>& rows, size_t rows_per_chart) {
  std::vector<const StepRow*> largest, others;
  for (const StepRow& row : rows) (row.primary ? largest : others).push_back(&row);
  std::vector<Chart> charts;
  size_t number = 0;
  for (const auto* group : {&largest, &others})
    add_charts(*group, rows_per_chart, "steps", number, "Training step as the sum of its nodes", step_chart, charts);
  return charts;
}

}  // namespace duet::reports
