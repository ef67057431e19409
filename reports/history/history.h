// SPDX-License-Identifier: Apache-2.0
// The history of runs: a SQLite database, which many commits share. Called by `duet history` (cli/history.cpp); `duet
// gate` asks for baseline(). Start reading here. What the tables keep of a run is in record.h, their text form in
// json_lines.h; alarm.h and change_points.h decide what is slower, trend.h applies them, dashboard.h draws the result.
// What is derived (alarms, change points) is not stored: a run that turns out bad, or a new normal, changes it at once.
//
// Each call that writes is one transaction. Error: a file or a name that cannot be used; std::runtime_error: locked, or
// the disk is full.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reports/history/record.h"
#include "reports/history/sqlite.h"

namespace duet::history {

inline constexpr int64_t kApplicationId = 0x44756574;  // "Duet", in the file's header
inline constexpr int kWaitMs = 10000;                  // for another process's lock
inline constexpr size_t kMaxBaseline = 50;             // runs that an alarm looks back at
inline constexpr size_t kMinBaseline = 20;             // with fewer there is no alarm

// One run as lists show it.
struct ListedRun {
  int64_t number = 0;       // in this database; merging another one may give a run another number
  RunInfo info;             // without its environment
  int64_t environment = 0;  // of Window::environments
  int64_t series = 0, failures = 0;
};

struct Point {
  size_t run = 0;  // index of Window::runs
  double median_s = 0, lo_s = 0, hi_s = 0;
  bool disturbed = false;
};

struct SeriesHistory {
  SeriesInfo info;
  std::vector<Point> points;     // oldest first
  std::optional<size_t> normal;  // index of the run of its newest mark; none where there is none within the window
  bool has_mark = false;         // whether any mark exists; points before it are in `points`, too
  std::string mark_note;
};

// The last runs of one machine, oldest first: valid ones that are neither `pr` nor `confirm`.
struct Window {
  MachineInfo machine;
  std::vector<ListedRun> runs;
  std::map<int64_t, Facts> environments;  // few, and shared by many runs
  std::vector<SeriesHistory> series;      // by family, then key; those without a point are left out
};

enum class Added { added, already_there };

class History {
 public:
  // Access::create makes the file where there is none and brings an older one up to date.
  History(const std::string& path, Access access, int wait_ms = kWaitMs);

  // --- writing

  // Throws Error where a run of the same name has other content.
  Added add(const Conversion& run);
  struct Imported {
    int64_t added = 0, already_there = 0, marks = 0;
  };
  // The lines of an export (json_lines.h), all or none.
  Imported import_lines(const std::string& name, const std::string& text);
  // "new normal" from a run on, of these series. Replaces the note of a mark that is there.
  void mark(int64_t run, const std::vector<std::string>& keys, const std::string& note);
  void set_valid(int64_t run, bool valid, const std::string& note);

  // --- reading

  std::vector<ListedRun> runs(size_t last) const;  // of all machines, newest last
  // "latest", a number, or an id. Throws Error where there is none or several.
  ListedRun find(const std::string& name) const;
  RunRecord record(int64_t run) const;
  std::vector<SeriesInfo> series_of(int64_t run) const;
  std::vector<MachineInfo> machines() const;  // the one with the latest run first
  // The run that a confirming run of this commit and machine repeats: the latest one that is no confirm run itself.
  std::optional<RunName> run_to_confirm(const RunInfo& confirming) const;
  std::vector<int64_t> confirming_runs(int64_t run) const;
  std::optional<int64_t> number_of(const RunName& name) const;

  // The last `last` runs of a machine, up to and with run `until` where that is given: it is then the last one,
  // whatever its reason is. wanted: which series; without it, all.
  Window window(const std::string& fingerprint, size_t last, std::optional<int64_t> until = {},
                const std::function<bool(const SeriesInfo&)>& wanted = {}) const;
  void export_lines(const std::function<void(const std::string&)>& write) const;

  Database& database() const { return *database_; }

 private:
  int64_t machine_id(const MachineInfo& machine);
  int64_t series_id(const SeriesInfo& series);
  Added insert(const MachineInfo& machine, const std::vector<SeriesInfo>& series, const RunRecord& record);
  void insert_mark(const Mark& mark);
  ListedRun listed(Statement& row) const;
  Facts environment(int64_t number) const;
  std::unique_ptr<Database> database_;
};

// A past run as a gate compares with it: the medians of its series, by SeriesInfo::key. What lies before a series' new
// normal is left out.
struct BaselineRun {
  RunInfo info;
  std::vector<std::pair<std::string, double>> medians_s;
};

// The last `max_runs` valid runs of machines with this fingerprint that are wanted, oldest first; neither `pr` nor
// `confirm` runs. Of the last kSearched runs.
inline constexpr size_t kSearched = 1000;
std::vector<BaselineRun> baseline(const std::string& database, const std::string& fingerprint,
                                  const std::function<bool(const RunInfo&)>& wanted, size_t max_runs = kMaxBaseline);

// Brings a database to the version that `steps` end at, each step a script that raises the version by one; all of it or
// nothing. Throws Error on a newer version. Public for its test.
void migrate(Database& database, const std::vector<const char*>& steps);

}  // namespace duet::history
