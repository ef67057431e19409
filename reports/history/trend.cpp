// SPDX-License-Identifier: Apache-2.0
#include "reports/history/trend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/format.h"
#include "results/statistics.h"

namespace duet::history {
namespace {

constexpr double kClockDrift = 0.05;  // share by which a GPU's clock may differ between runs without being named

// Keeps the last `last` runs.
void cut(Window& window, size_t last) {
  if (window.runs.size() <= last) return;
  const size_t gone = window.runs.size() - last;
  window.runs.erase(window.runs.begin(), window.runs.begin() + static_cast<std::ptrdiff_t>(gone));
  for (SeriesHistory& series : window.series) {
    std::erase_if(series.points, [&](const Point& point) { return point.run < gone; });
    for (Point& point : series.points) point.run -= gone;
    if (series.normal) series.normal = *series.normal > gone ? std::optional(*series.normal - gone) : std::nullopt;
  }
  std::erase_if(window.series, [](const SeriesHistory& series) { return series.points.empty(); });
}

std::vector<EnvironmentChange> environment_changes(const Window& window) {
  std::vector<EnvironmentChange> changes;
  std::optional<double> clock;
  for (size_t i = 0; i < window.runs.size(); ++i) {
    EnvironmentChange change{i, {}};
    const ListedRun& now = window.runs[i];
    if (i > 0 && now.environment != window.runs[i - 1].environment) {
      const Facts& before = window.environments.at(window.runs[i - 1].environment);
      const Facts& after = window.environments.at(now.environment);
      for (const auto& [name, value] : after)
        if (const std::string old = fact(before, name); old != value)
          change.facts.push_back(fmt::format("{}: {}, was {}", name, value, old.empty() ? "not there" : old));
      for (const auto& [name, value] : before)
        if (std::none_of(after.begin(), after.end(), [&name = name](const auto& f) { return f.first == name; }))
          change.facts.push_back(fmt::format("{}: not there, was {}", name, value));
    }
    if (const auto& found = now.info.gpu_clock_mhz) {
      if (clock && std::abs(*found / *clock - 1) > kClockDrift)
        change.facts.push_back(fmt::format("GPU clock: {:.0f} MHz, was {:.0f} MHz", *found, *clock));
      if (!clock || !change.facts.empty()) clock = found;
    }
    if (!change.facts.empty()) changes.push_back(std::move(change));
  }
  return changes;
}

// Between two marks, since a mark is a change that is known; of the runs with the settings of the latest one.
std::vector<LevelChange> level_changes(const Window& window, const SeriesHistory& series) {
  std::vector<LevelChange> changes;
  const std::vector<Point> points = alike_points(window, series);
  const auto border = std::find_if(points.begin(), points.end(),
                                   [&](const Point& point) { return point.run >= series.normal.value_or(0); });
  for (const auto& [begin, end] : {std::pair(points.begin(), border), {border, points.end()}}) {
    std::vector<double> times_s;
    for (auto point = begin; point != end; ++point) times_s.push_back(point->median_s);
    for (const ChangePoint& found : change_points(times_s))
      changes.push_back({(begin + static_cast<std::ptrdiff_t>(found.first))->run, found.change, found.p});
  }
  return changes;
}

bool has_status(const Verdict& verdict, std::initializer_list<Status> statuses) {
  return std::find(statuses.begin(), statuses.end(), verdict.status) != statuses.end();
}

std::vector<const Verdict*> with_status(const std::vector<const Verdict*>& verdicts,
                                        std::initializer_list<Status> statuses) {
  std::vector<const Verdict*> found;
  for (const Verdict* verdict : verdicts)
    if (has_status(*verdict, statuses)) found.push_back(verdict);
  // The largest change first.
  std::stable_sort(found.begin(), found.end(), [](const Verdict* a, const Verdict* b) {
    return std::abs(std::log1p(a->score->change)) > std::abs(std::log1p(b->score->change));
  });
  return found;
}

std::string series_are(size_t count) { return count == 1 ? "1 series is" : fmt::format("{} series are", count); }

std::string largest(const Verdict& verdict) {
  return fmt::format("{}: {}, {} of its usual {}, z {}", verdict.key, reports::seconds(verdict.value_s),
                     change_text(verdict.score->change), usual_text(verdict), z_text(verdict));
}

std::string answer(const std::vector<const Verdict*>& verdicts) {
  const auto scored = static_cast<size_t>(
      std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict* v) { return v->score.has_value(); }));
  if (scored == 0)
    return fmt::format("No alarm is possible yet: a series needs {} runs on this machine before the latest one.",
                       kMinBaseline);
  const auto confirmed = with_status(verdicts, {Status::slower});
  const auto waiting = with_status(verdicts, {Status::slower_unconfirmed});
  const auto faster = with_status(verdicts, {Status::faster});
  const auto cleared = with_status(verdicts, {Status::cleared});
  std::string text;
  const auto add = [&](const std::string& sentence) { text += (text.empty() ? "" : " ") + sentence; };
  if (!confirmed.empty())
    add(fmt::format("{} slower than before, and a second run confirmed it ({}).", series_are(confirmed.size()),
                    largest(*confirmed.front())));
  if (!waiting.empty())
    add(fmt::format("{} slower than before and not confirmed by a second run ({}).", series_are(waiting.size()),
                    largest(*waiting.front())));
  if (!faster.empty())
    add(fmt::format("{} faster than before ({}).", series_are(faster.size()), largest(*faster.front())));
  if (!cleared.empty())
    add(fmt::format("{} slower in the run itself and not in the one that repeats it.", series_are(cleared.size())));
  if (text.empty())
    add(fmt::format("Nothing is slower or faster: {} within the spread of the runs before.", series_are(scored)));
  if (scored < verdicts.size())
    add(fmt::format("{} too new for an alarm, which needs {} runs before it.", series_are(verdicts.size() - scored),
                    kMinBaseline));
  return text;
}

}  // namespace

bool SeriesTrend::changed() const {
  if (verdict && has_status(*verdict, {Status::faster, Status::slower_unconfirmed, Status::slower})) return true;
  return std::any_of(level_changes.begin(), level_changes.end(),
                     [&](const LevelChange& change) { return change.run > history.normal.value_or(0); });
}

std::string MachineTrend::machine_text() const {
  const Facts& facts = window.machine.facts;
  const std::string gpu = fact(facts, "gpu");
  return fmt::format("{}, {} cores; {} ({})", fact(facts, "cpu"), fact(facts, "cores"),
                     gpu.empty() || gpu == "none" ? "no GPU" : gpu, window.machine.fingerprint);
}

std::vector<MachineTrend> make_trend(const History& history, const TrendOptions& options) {
  std::vector<MachineTrend> trends;
  for (const MachineInfo& machine : history.machines()) {
    if (!machine.fingerprint.starts_with(options.machine)) continue;
    Window window = history.window(machine.fingerprint, std::max(options.last, kAlarmWindow), {}, options.wanted);
    if (window.runs.empty()) continue;
    std::vector<Verdict> found = verdicts(history, window);
    cut(window, options.last);
    MachineTrend trend;
    trend.environment_changes = environment_changes(window);
    trend.failures = history.record(window.runs.back().number).failures;
    const size_t last = window.runs.size() - 1;
    for (SeriesHistory& series : window.series) {
      SeriesTrend one;
      const auto at =
          std::find_if(found.begin(), found.end(), [&](const Verdict& v) { return v.key == series.info.key; });
      if (at != found.end()) one.verdict = std::move(*at);
      if (at != found.end()) found.erase(at);
      if (!one.verdict && series.points.back().run + 1 == last) ++trend.missing;
      one.level_changes = level_changes(window, series);
      std::vector<double> times_s;
      for (const Point& point : series.points) times_s.push_back(point.median_s);
      one.usual_s = results::median(std::move(times_s));
      one.history = std::move(series);
      trend.series.push_back(std::move(one));
    }
    window.series.clear();
    trend.window = std::move(window);
    trends.push_back(std::move(trend));
  }
  return trends;
}

std::vector<Verdict> verdicts_of(const History& history, const ListedRun& run) {
  return verdicts(history, history.window(run.info.name.fingerprint, kAlarmWindow, run.number));
}

std::string answer(const std::vector<Verdict>& verdicts) {
  std::vector<const Verdict*> all;
  for (const Verdict& verdict : verdicts) all.push_back(&verdict);
  return answer(all);
}

std::string answer(const MachineTrend& trend) {
  const Window& window = trend.window;
  std::vector<const Verdict*> all;
  for (const SeriesTrend& series : trend.series)
    if (series.verdict) all.push_back(&*series.verdict);
  std::string text = fmt::format("Latest: {}. ", run_text(window.runs.back()));
  text += all.empty() ? "It has no time of the series that are shown." : answer(all);

  size_t moved = 0;
  const SeriesTrend* newest = nullptr;
  const LevelChange* change = nullptr;
  for (const SeriesTrend& series : trend.series) {
    bool any = false;
    for (const LevelChange& candidate : series.level_changes) {
      if (candidate.run <= series.history.normal.value_or(0)) continue;
      any = true;
      if (change && change->run >= candidate.run) continue;
      change = &candidate;
      newest = &series;
    }
    moved += any ? 1 : 0;
  }
  if (change)
    text += fmt::format(" In the {} shown, {} moved to another level and stayed there; the newest is {}: {} since {}.",
                        reports::count_of(window.runs.size(), "run"),
                        moved == 1 ? "1 series" : fmt::format("{} series", moved), newest->history.info.key,
                        change_text(change->change), run_text(window.runs[change->run]));
  if (!trend.failures.empty())
    text +=
        fmt::format(" {} without a result in the latest run ({}: {}).", reports::count_of(trend.failures.size(), "job"),
                    trend.failures.front().job, trend.failures.front().reason);
  if (trend.missing > 0)
    text += fmt::format(" The latest run lacks {} series that the run before it had.", trend.missing);
  if (!trend.environment_changes.empty()) {
    const EnvironmentChange& last = trend.environment_changes.back();
    text += fmt::format(
        " Besides the code, something changed {}; last at {}: {}{}.",
        trend.environment_changes.size() == 1 ? "once" : fmt::format("{} times", trend.environment_changes.size()),
        run_text(window.runs[last.run]), last.facts.front(),
        last.facts.size() == 1 ? "" : fmt::format(" and {} more", last.facts.size() - 1));
  }
  return text;
}

std::string run_text(const ListedRun& run) {
  const std::string commit = run.info.git_sha.substr(0, 7);
  return fmt::format("run {} of {} ({}{})", run.number, run.info.started_at.substr(0, 10),
                     commit.empty() ? "no commit" : commit, run.info.dirty ? ", changed" : "");
}

std::string change_text(double change) {
  const double percent = 100 * change;
  const char* sign = percent > 0 ? "+" : percent < 0 ? "−" : "";
  return fmt::format("{}{} %", sign, reports::significant(std::abs(percent), std::abs(percent) < 10 ? 2 : 3));
}

std::string z_text(const Verdict& verdict) { return verdict.score ? reports::significant(verdict.score->z, 2) : ""; }
std::string usual_text(const Verdict& verdict) {
  return verdict.score ? reports::seconds(verdict.score->median_s) : "";
}

}  // namespace duet::history
