// SPDX-License-Identifier: Apache-2.0
// What changed in a history: the alarms of the latest run, the changes of level in the runs before it, and what else
// changed with them. Printed by `duet history trend`, drawn by dashboard.h.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reports/history/alarm.h"
#include "reports/history/change_points.h"
#include "reports/history/history.h"

namespace duet::history {

struct LevelChange {
  size_t run = 0;  // index of Window::runs: the first of the new level
  double change = 0, p = 1;
};

struct SeriesTrend {
  SeriesHistory history;
  std::optional<Verdict> verdict;  // none where the latest run has no time of it
  std::vector<LevelChange> level_changes;
  double usual_s = 0;  // median of the runs shown
  // Whether it belongs in the answer: out of line in the latest run, or at another level since its new normal.
  bool changed() const;
};

struct EnvironmentChange {
  size_t run = 0;                  // index of Window::runs: the first run that has it
  std::vector<std::string> facts;  // "gpu.driver: 580.1, was 575.9"
};

// Of one machine. `window` holds the runs; its series stand in `series`.
struct MachineTrend {
  Window window;
  std::vector<SeriesTrend> series;
  std::vector<EnvironmentChange> environment_changes;
  std::vector<Failure> failures;     // of the latest run
  size_t missing = 0;                // series of the run before that the latest one lacks
  std::string machine_text() const;  // "AMD EPYC, 2 cores; no GPU (2fad08b66fada257)"
};

struct TrendOptions {
  size_t last = 200;                                // runs of each machine
  std::string machine;                              // only fingerprints that begin so
  std::function<bool(const SeriesInfo&)> wanted{};  // without it: every series
};

// Machines without a run to show are left out.
std::vector<MachineTrend> make_trend(const History& history, const TrendOptions& options);

// Of one run, after it was added: against the runs before it.
std::vector<Verdict> verdicts_of(const History& history, const ListedRun& run);

// The answer in sentences, for the top of a page and for a terminal.
std::string answer(const MachineTrend& trend);
std::string answer(const std::vector<Verdict>& verdicts);

std::string run_text(const ListedRun& run);      // "run 17 of 2026-11-22 (44dad03)"
std::string change_text(double change);          // "+12 %"
std::string z_text(const Verdict& verdict);      // "8.1", or nothing
std::string usual_text(const Verdict& verdict);  // "1.2 ms", or nothing

}  // namespace duet::history
