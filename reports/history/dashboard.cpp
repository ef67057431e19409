// SPDX-License-Identifier: Apache-2.0
#include "reports/history/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reports/format.h"
#include "reports/svg.h"
#include "results/statistics.h"

namespace duet::history {
namespace {

using reports::Anchor;
using reports::Block;
using reports::cell;
using reports::Chart;
using reports::count_of;
using reports::Figures;
using reports::Fold;
using reports::plain;
using reports::seconds;
using reports::Section;
using reports::Svg;
using reports::Table;
using reports::Text;
using reports::Tone;

constexpr size_t kMaxChanged = 40;  // charts of changed series; further ones stand in the table
constexpr size_t kMaxDrawn = 300;   // points of a curve; of more, the extremes of each piece are drawn
constexpr size_t kMaxRuns = 1000;   // lines in the list of runs

constexpr int kWidth = 560;                // pixels, at most: a page sets several side by side
constexpr int kLarge = 190, kSmall = 130;  // heights
constexpr size_t kTitle = 44;              // characters that fit at the narrowest width

// A curve over the runs with the lines of what else changed. Horizontal positions are percent (svg.h).
class Plot {
 public:
  Plot(const MachineTrend& trend, int height, double low, double high)
      : trend_(trend), low_(low), high_(high), bottom_(height - 18.0) {}

  double x(size_t run) const { return kLeft + (kRight - kLeft) * share(run); }
  double y(double value) const {
    return bottom_ - (bottom_ - kTop) * std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
  }

  void frame(const std::string& title, const std::string& value, const std::string& low, const std::string& high) {
    const std::vector<ListedRun>& runs = trend_.window.runs;
    svg.text({1, 14}, reports::elided(title, kTitle), Anchor::start, "h");
    svg.text({kRight, 29}, value, Anchor::end, "m");
    svg.line({kLeft, bottom_}, {kRight, bottom_}, "grid");
    svg.line({kLeft, kTop}, {kRight, kTop}, "grid");
    svg.text({kLeft - 1, kTop + 4}, high, Anchor::end, "m");
    svg.text({kLeft - 1, bottom_}, low, Anchor::end, "m");
    svg.text({kLeft, bottom_ + 13}, runs.front().info.started_at.substr(0, 10), Anchor::start, "m");
    if (runs.size() > 1) svg.text({kRight, bottom_ + 13}, runs.back().info.started_at.substr(0, 10), Anchor::end, "m");
  }
  void band(double from, double to) {
    svg.rect(kLeft, y(to), kRight - kLeft, y(from) - y(to), "band", "where a time of the latest run is in line");
  }
  void environment_lines() {
    size_t number = 0;
    for (const EnvironmentChange& change : trend_.environment_changes) {
      std::string facts;
      for (const std::string& text : change.facts) facts += (facts.empty() ? "" : "; ") + text;
      const std::string label = fmt::format("{}", ++number);
      vertical(change.run, "f-warn", label, label + ": " + facts);
    }
  }
  void vertical(size_t run, const std::string& cls, const std::string& label, const std::string& tip) {
    constexpr double kThin = 0.4;
    svg.rect(x(run) - kThin / 2, kTop, kThin, bottom_ - kTop, cls, tip);
    svg.text({x(run), kTop - 2}, label, Anchor::middle, "m");
  }
  void level(double value) { svg.line({kLeft, y(value)}, {kRight, y(value)}, "one"); }
  // One path in a picture of its own, which is stretched to the width: lines one by one would be many times as long.
  void curve(const std::vector<std::pair<size_t, double>>& values, const std::string& cls) {
    std::string path;
    const auto go_to = [&](const std::pair<size_t, double>& value) {
      path +=
          fmt::format("{}{:.1f},{:.1f}", path.empty() ? "M" : "L", 1000 * share(value.first), y(value.second) - kTop);
    };
    const size_t piece = values.size() <= kMaxDrawn ? 1 : (2 * values.size() + kMaxDrawn - 1) / kMaxDrawn;
    for (size_t begin = 0; begin < values.size(); begin += piece) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto end = values.begin() + static_cast<std::ptrdiff_t>(std::min(begin + piece, values.size()));
      auto [low, high] =
          std::minmax_element(first, end, [](const auto& a, const auto& b) { return a.second < b.second; });
      if (high < low) std::swap(low, high);  // by place
      go_to(*low);
      if (high != low) go_to(*high);
    }
    svg.raw(fmt::format(R"(<svg x="{}%" y="{}" width="{}%" height="{:.0f}" viewBox="0 0 1000 {:.0f}" )"
                        R"(preserveAspectRatio="none" overflow="visible"><path d="{}" class="curve {}" )"
                        R"(vector-effect="non-scaling-stroke"/></svg>)",
                        kLeft, kTop, kRight - kLeft, bottom_ - kTop, bottom_ - kTop, path, cls));
  }

  Svg svg;

 private:
  static constexpr double kLeft = 19, kRight = 97, kTop = 46;
  double share(size_t run) const {
    const size_t runs = trend_.window.runs.size();
    return runs < 2 ? 0.5 : static_cast<double>(run) / static_cast<double>(runs - 1);
  }
  const MachineTrend& trend_;
  double low_, high_, bottom_;
};

std::string scope_text(const SeriesInfo& info) {
  std::string text = info.scope == "end_to_end" ? "end to end" : info.scope;
  if (info.cache != "warm") text += ", " + info.cache;
  if (info.device == "cpu") text += ", " + count_of(static_cast<size_t>(info.threads), "thread");
  return text;
}
std::string title_of(const SeriesInfo& info) {
  return fmt::format("{} {}, {}", reports::case_text(info.case_name), info.impl, scope_text(info));
}

Chart series_chart(const MachineTrend& trend, const SeriesTrend& series, int height, const std::string& stem) {
  const std::vector<Point>& points = series.history.points;
  constexpr double kMargin = 0.05;  // so that noise does not look like a change
  double low = series.usual_s * (1 - kMargin), high = series.usual_s * (1 + kMargin);
  std::vector<std::pair<size_t, double>> values;
  for (const Point& point : points) {
    low = std::min(low, point.median_s);
    high = std::max(high, point.median_s);
    values.emplace_back(point.run, point.median_s);
  }
  Plot plot(trend, height, low, high);
  if (series.verdict && series.verdict->score) {
    const RobustZ& score = *series.verdict->score;
    plot.band(score.median_s * std::exp(-kMaxZ * score.spread), score.median_s * std::exp(kMaxZ * score.spread));
  }
  plot.environment_lines();
  if (series.history.normal)
    plot.vertical(*series.history.normal, "f-good", "new normal", "new normal: " + series.history.mark_note);
  plot.curve(values, "l-" + series.history.info.device);
  for (const LevelChange& change : series.level_changes) {
    const auto at = std::find_if(points.begin(), points.end(), [&](const Point& p) { return p.run == change.run; });
    plot.svg.marker({plot.x(change.run), plot.y(at->median_s)}, reports::Shape::triangle,
                    change.change > 0 ? "f-bad" : "f-good",
                    fmt::format("{} since {}", change_text(change.change), run_text(trend.window.runs[change.run])));
  }
  const Point& now = points.back();
  const bool bad = series.verdict &&
                   (series.verdict->status == Status::slower || series.verdict->status == Status::slower_unconfirmed);
  plot.svg.marker({plot.x(now.run), plot.y(now.median_s)}, bad ? reports::Shape::square : reports::Shape::circle,
                  bad ? "f-bad" : "f-" + series.history.info.device,
                  fmt::format("{}: {}{}", run_text(trend.window.runs[now.run]), seconds(now.median_s),
                              now.disturbed ? ", disturbed" : ""));
  const std::string title = title_of(series.history.info);
  plot.frame(title, seconds(now.median_s), seconds(low), seconds(high));
  std::string description =
      fmt::format("{} over {}; latest {}.", title, count_of(points.size(), "run"), seconds(now.median_s));
  return std::move(plot.svg).chart(stem, title, description, kWidth, height);
}

// Geometric mean over a family's series of time / usual time, by run.
std::vector<std::pair<size_t, double>> family_means(const std::vector<const SeriesTrend*>& family) {
  std::map<size_t, std::vector<double>> ratios;
  for (const SeriesTrend* series : family)
    for (const Point& point : series->history.points)
      ratios[point.run].push_back(std::clamp(point.median_s / series->usual_s, 1e-9, 1e9));
  std::vector<std::pair<size_t, double>> means;
  for (const auto& [run, values] : ratios) means.emplace_back(run, results::geometric_mean(values));
  return means;
}

Chart family_chart(const MachineTrend& trend, const std::string& name, const std::vector<const SeriesTrend*>& family,
                   const std::string& stem) {
  const auto means = family_means(family);
  double low = 0.95, high = 1.05;
  for (const auto& [run, mean] : means) {
    low = std::min(low, mean);
    high = std::max(high, mean);
  }
  Plot plot(trend, kLarge, low, high);
  plot.environment_lines();
  plot.level(1);
  plot.curve(means, "l-gpu");
  plot.svg.marker(
      {plot.x(means.back().first), plot.y(means.back().second)}, reports::Shape::circle, "f-gpu",
      fmt::format("{}: {}", run_text(trend.window.runs[means.back().first]), change_text(means.back().second - 1)));
  const std::string title = fmt::format("{}: time of {} series", name, family.size());
  plot.frame(title, change_text(means.back().second - 1), change_text(low - 1), change_text(high - 1));
  return std::move(plot.svg).chart(stem, title, title + ", geometric mean of time / usual time, by run.", kWidth,
                                   kLarge);
}

Tone tone_of(Status status) {
  switch (status) {
    case Status::slower:
    case Status::slower_unconfirmed:
      return Tone::bad;
    case Status::faster:
      return Tone::good;
    case Status::cleared:
      return Tone::warn;
    default:
      return Tone::muted;
  }
}

std::vector<reports::Cell> row_of(const MachineTrend& trend, const SeriesTrend& series) {
  std::string levels;
  for (const LevelChange& change : series.level_changes)
    levels += fmt::format("{}{} since {}", levels.empty() ? "" : "; ", change_text(change.change),
                          run_text(trend.window.runs[change.run]));
  const Verdict* verdict = series.verdict ? &*series.verdict : nullptr;
  return {
      cell(series.history.info.key, Tone::code),
      cell(seconds(series.history.points.back().median_s)),
      cell(verdict ? usual_text(*verdict) : ""),
      cell(verdict && verdict->score ? change_text(verdict->score->change) : ""),
      cell(verdict ? z_text(*verdict) : ""),
      verdict ? cell(to_text(verdict->status), tone_of(verdict->status)) : cell("not in the latest run", Tone::muted),
      cell(levels)};
}

const std::vector<reports::Column> kColumns = {{"series"},  {"latest", true},  {"usual", true}, {"change", true},
                                               {"z", true}, {"latest run is"}, {"other level"}};

std::vector<const SeriesTrend*> changed_series(const MachineTrend& trend) {
  std::vector<const SeriesTrend*> changed;
  for (const SeriesTrend& series : trend.series)
    if (series.changed()) changed.push_back(&series);
  const auto size = [](const SeriesTrend* series) {
    double largest = series->verdict && series->verdict->score ? std::abs(series->verdict->score->z) : 0;
    if (series->verdict && tone_of(series->verdict->status) == Tone::bad) largest += 1e6;  // alarms come first
    return largest;
  };
  std::stable_sort(changed.begin(), changed.end(),
                   [&](const SeriesTrend* a, const SeriesTrend* b) { return size(a) > size(b); });
  return changed;
}

Section changes_section(const MachineTrend& trend, const std::string& suffix, const std::string& stem) {
  Section section{"What changed" + suffix, {}};
  const auto changed = changed_series(trend);
  if (changed.empty()) {
    section.blocks.push_back({Text{plain("No series changed in the runs shown.")}});
    return section;
  }
  section.blocks.push_back({Text{plain(
      "Red square: the latest run is slower than the runs before it. Triangle: from there on the series is at another "
      "level. Numbered lines: something besides the code changed. Grey: where a time of the latest run is in "
      "line.")}});
  Figures figures;
  for (size_t i = 0; i < std::min(changed.size(), kMaxChanged); ++i)
    figures.charts.push_back(series_chart(trend, *changed[i], kLarge, fmt::format("{}-changed-{}", stem, i)));
  section.blocks.push_back({std::move(figures)});
  section.blocks.push_back({changes_table(trend, SIZE_MAX, false)});
  return section;
}

Section families_section(const MachineTrend& trend, const std::string& suffix, const std::string& stem) {
  std::map<std::string, std::vector<const SeriesTrend*>> families;
  for (const SeriesTrend& series : trend.series) families[series.history.info.family].push_back(&series);
  Section section{"By family" + suffix, {}};
  section.blocks.push_back({Text{
      plain("Each series' time is divided by its median over the runs shown; the curve is the geometric mean.")}});
  Figures overview;
  std::vector<Block> folds;
  size_t number = 0;
  std::string slowest;
  double most = 0;
  for (const auto& [name, series] : families) {
    const std::string shown = name.empty() ? "no family" : name;
    overview.charts.push_back(family_chart(trend, shown, series, fmt::format("{}-family-{}", stem, number)));
    const auto means = family_means(series);
    if (const double change = means.back().second - 1; std::abs(change) > std::abs(most)) {
      most = change;
      slowest = shown;
    }
    Figures small;
    for (size_t i = 0; i < series.size(); ++i)
      small.charts.push_back(series_chart(trend, *series[i], kSmall, fmt::format("{}-{}-{}", stem, number, i)));
    folds.push_back({Fold{fmt::format("{}: {} series", shown, series.size()), {Block{std::move(small)}}}});
    ++number;
  }
  section.blocks.push_back({std::move(overview)});
  if (!slowest.empty())
    section.blocks.push_back({Text{plain(fmt::format(
        "The family furthest from its usual time in its latest run is {}: {}.", slowest, change_text(most)))}});
  for (Block& fold : folds) section.blocks.push_back(std::move(fold));
  return section;
}

Section runs_section(const MachineTrend& trend, const std::string& suffix) {
  Section section{"Runs" + suffix, {}};
  Table changes{{}, {{"line", true}, {"first run"}, {"what changed besides the code"}}, {}};
  for (size_t i = 0; i < trend.environment_changes.size(); ++i) {
    const EnvironmentChange& change = trend.environment_changes[i];
    std::string facts;
    for (const std::string& text : change.facts) facts += (facts.empty() ? "" : "; ") + text;
    changes.rows.push_back(
        {cell(fmt::format("{}", i + 1)), cell(run_text(trend.window.runs[change.run])), cell(facts)});
  }
  if (changes.rows.empty())
    section.blocks.push_back(
        {Text{plain("Compiler, libraries, driver, kernel and settings are the same in all runs.")}});
  else
    section.blocks.push_back({std::move(changes)});

  Table table{{}, {{"run", true}, {"started at"}, {"commit"}, {"branch"}, {"reason"}, {"series", true}, {"state"}}, {}};
  const size_t begin = trend.window.runs.size() > kMaxRuns ? trend.window.runs.size() - kMaxRuns : 0;
  for (size_t i = trend.window.runs.size(); i > begin; --i) {
    const ListedRun& run = trend.window.runs[i - 1];
    table.rows.push_back({cell(fmt::format("{}", run.number)), cell(run.info.started_at),
                          cell(run.info.git_sha.substr(0, 12) + (run.info.dirty ? ", changed" : "")),
                          cell(run.info.branch), cell(run.info.reason), cell(fmt::format("{}", run.series)),
                          cell(run.info.trust + (run.info.note.empty() ? "" : "; " + run.info.note))});
  }
  section.blocks.push_back({Fold{count_of(trend.window.runs.size(), "run"), {Block{std::move(table)}}}});
  Table all = changes_table(trend, SIZE_MAX, true);
  section.blocks.push_back({Fold{"Every series in its latest run", {Block{std::move(all)}}}});
  return section;
}

}  // namespace

Table changes_table(const MachineTrend& trend, size_t max_rows, bool all) {
  Table table{{}, kColumns, {}};
  std::vector<const SeriesTrend*> shown = changed_series(trend);
  if (all)
    for (const SeriesTrend& series : trend.series)
      if (!series.changed()) shown.push_back(&series);
  for (const SeriesTrend* series : shown)
    if (table.rows.size() < max_rows) table.rows.push_back(row_of(trend, *series));
  return table;
}

reports::Document make_dashboard(const std::vector<MachineTrend>& trends, const std::string& source) {
  reports::Document document;
  document.title = "Duet: history";
  if (trends.empty()) document.subtitle = {plain("The history holds no valid run to show.")};
  size_t runs = 0, series = 0, number = 0;
  for (const MachineTrend& trend : trends) {
    runs += trend.window.runs.size();
    series += trend.series.size();
    if (trends.size() > 1) {
      document.subtitle.push_back(reports::strong(trend.machine_text() + ": "));
      document.subtitle.back().new_line = document.subtitle.size() > 1;
    }
    document.subtitle.push_back(plain(answer(trend)));
    const std::string suffix = trends.size() > 1 ? ", " + trend.machine_text() : "";
    const std::string stem = fmt::format("m{}", ++number);
    document.sections.push_back(changes_section(trend, suffix, stem));
    document.sections.push_back(families_section(trend, suffix, stem));
    document.sections.push_back(runs_section(trend, suffix));
  }
  document.verdict = {plain(count_of(runs, "run")), plain(fmt::format("{} series", series))};
  if (trends.size() == 1)
    document.verdict.push_back(plain(trends.front().machine_text()));
  else
    document.verdict.push_back(plain(count_of(trends.size(), "machine")));
  document.verdict.push_back(reports::code(source));
  return document;
}

}  // namespace duet::history
