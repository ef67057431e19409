// SPDX-License-Identifier: Apache-2.0
#include "reports/history/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/error.h"
#include "reports/history/json_lines.h"

namespace duet::history {
namespace {

// Results are kept by series, so that one series is read in one piece. The file's version is the number of these steps.
const std::vector<const char*> kSteps = {R"(
CREATE TABLE machine(
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL UNIQUE,
  facts_json TEXT NOT NULL CHECK(json_valid(facts_json))) STRICT;
CREATE TABLE environment(
  id INTEGER PRIMARY KEY,
  facts_json TEXT NOT NULL UNIQUE CHECK(json_valid(facts_json))) STRICT;
CREATE TABLE run(
  id INTEGER PRIMARY KEY,
  machine INTEGER NOT NULL REFERENCES machine,
  host TEXT NOT NULL,
  name TEXT NOT NULL CHECK(name <> ''),
  started_at TEXT NOT NULL CHECK(started_at LIKE '____-__-__T__:__:__Z'),
  git_sha TEXT NOT NULL,
  dirty INTEGER NOT NULL CHECK(dirty IN (0, 1)),
  branch TEXT NOT NULL,
  commit_time TEXT NOT NULL,
  reason TEXT NOT NULL CHECK(reason IN ('ci', 'pr', 'nightly', 'local', 'confirm', 'import')),
  trust TEXT NOT NULL,
  environment INTEGER NOT NULL REFERENCES environment,
  gpu_clock_mhz REAL CHECK(gpu_clock_mhz > 0),
  confirms INTEGER REFERENCES run,
  valid INTEGER NOT NULL CHECK(valid IN (0, 1)),
  note TEXT NOT NULL,
  series INTEGER NOT NULL,
  failures_json TEXT NOT NULL CHECK(json_valid(failures_json)),
  UNIQUE(machine, host, name)) STRICT;
CREATE INDEX run_by_time ON run(machine, started_at, id);
CREATE INDEX run_by_confirmed ON run(confirms) WHERE confirms IS NOT NULL;
CREATE TABLE series(
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK(key <> ''),
  case_name TEXT NOT NULL,
  family TEXT NOT NULL,
  op TEXT NOT NULL,
  impl TEXT NOT NULL,
  device TEXT NOT NULL CHECK(device IN ('cpu', 'gpu')),
  dtype TEXT NOT NULL,
  scope TEXT NOT NULL,
  cache TEXT NOT NULL,
  threads INTEGER NOT NULL,
  params_json TEXT NOT NULL CHECK(json_valid(params_json)),
  flops REAL NOT NULL,
  bytes INTEGER NOT NULL) STRICT;
CREATE TABLE result(
  series INTEGER NOT NULL REFERENCES series,
  run INTEGER NOT NULL REFERENCES run,
  median_s REAL NOT NULL CHECK(median_s > 0 AND median_s < 1e300),
  lo_s REAL NOT NULL CHECK(lo_s > 0 AND lo_s < 1e300),
  hi_s REAL NOT NULL CHECK(hi_s > 0 AND hi_s < 1e300),
  min_s REAL NOT NULL CHECK(min_s > 0 AND min_s < 1e300),
  medians_json TEXT NOT NULL CHECK(json_valid(medians_json)),
  disturbed INTEGER NOT NULL CHECK(disturbed IN (0, 1)),
  PRIMARY KEY(series, run)) STRICT, WITHOUT ROWID;
CREATE TABLE mark(
  series INTEGER NOT NULL REFERENCES series,
  run INTEGER NOT NULL REFERENCES run,
  note TEXT NOT NULL,
  PRIMARY KEY(series, run)) STRICT, WITHOUT ROWID;
)"};

// Columns of a run, in the order that listed() reads.
#define DUET_RUN_COLUMNS                                                                             \
  "SELECT run.id, machine.fingerprint, run.host, run.name, run.started_at, run.git_sha, run.dirty, " \
  "run.branch, run.commit_time, run.reason, run.trust, run.environment, run.gpu_clock_mhz, "         \
  "run.confirms, run.valid, run.note, run.series, json_array_length(run.failures_json) FROM run "    \
  "JOIN machine ON machine.id = run.machine "

// Text that cannot be written as JSON would make every later export fail.
void require_text(const char* what, const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error("{} is not UTF-8", what);
  }
}

constexpr double kEndlessS = 1e300;  // as the tables have it

void require_times(const std::string& run, const Measurement& m) {
  for (const auto& [what, time_s] :
       {std::pair{"median_s", m.median_s}, {"lo_s", m.lo_s}, {"hi_s", m.hi_s}, {"min_s", m.min_s}})
    if (!(time_s > 0 && time_s < kEndlessS))
      throw Error("run {}: {} of {} is {}; a number above 0 and below {} is expected", run, what, m.key, time_s,
                  kEndlessS);
}

std::string failures_json(const std::vector<Failure>& failures) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Failure& f : failures) list.push_back({f.job, f.reason});
  return list.dump();
}

std::vector<Failure> failures_from_json(const std::string& path, const std::string& text) {
  std::vector<Failure> failures;
  try {
    for (const auto& [job, reason] : nlohmann::json::parse(text).get<std::vector<std::array<std::string, 2>>>())
      failures.push_back({job, reason});
  } catch (const nlohmann::json::exception&) {
    throw Error("{}: the failures of a run are not those that duet writes", path);
  }
  return failures;
}

void read_series(const Statement& row, SeriesInfo& s) {
  s = {.key = row.text(1),
       .case_name = row.text(2),
       .family = row.text(3),
       .op = row.text(4),
       .impl = row.text(5),
       .device = row.text(6),
       .dtype = row.text(7),
       .scope = row.text(8),
       .cache = row.text(9),
       .params_json = row.text(11),
       .threads = row.integer(10),
       .flops = row.number(12),
       .bytes = row.integer(13)};
}

std::string shown(const RunName& name) { return fmt::format("{} of {}", name.id, name.host); }

}  // namespace

void migrate(Database& database, const std::vector<const char*>& steps) {
  const auto newest = static_cast<int64_t>(steps.size());
  if (database.integer("PRAGMA user_version") == newest) return;
  Transaction transaction(database);
  const int64_t version = database.integer("PRAGMA user_version");  // another process may have been faster
  if (version > newest)
    throw Error("{}: has version {}, which is newer than the {} that this program reads", database.path(), version,
                newest);
  for (int64_t step = version; step < newest; ++step) database.execute(steps[static_cast<size_t>(step)]);
  database.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, newest).c_str());
  transaction.commit();
}

History::History(const std::string& path, Access access, int wait_ms)
    : database_(std::make_unique<Database>(path, access, wait_ms)) {
  const bool empty = database_->integer("SELECT count(*) FROM sqlite_schema") == 0;
  if (empty && access != Access::create) throw Error("{}: is an empty database, no history of duet", path);
  if (!empty && database_->integer("PRAGMA application_id") != kApplicationId)
    throw Error("{}: is a database of another program, no history of duet", path);
  if (access != Access::read) {
    migrate(*database_, kSteps);
    // Readers and a writer do not wait for each other. The file remembers it; a copy, or one that was interrupted when
    // it was made, may have lost it.
    Statement statement(*database_, "PRAGMA journal_mode = WAL");
    statement.run();
    return;
  }
  const int64_t version = database_->integer("PRAGMA user_version");
  const auto newest = static_cast<int64_t>(kSteps.size());
  if (version > newest)
    throw Error("{}: has version {}, which is newer than the {} that this program reads", path, version, newest);
  if (version < newest)
    throw Error("{}: has version {}; duet history import brings it to version {}", path, version, newest);
}

// --- writing

int64_t History::machine_id(const MachineInfo& machine) {
  Statement insert(*database_, "INSERT INTO machine(fingerprint, facts_json) VALUES (?, ?) ON CONFLICT DO NOTHING");
  insert.bind(machine.fingerprint, facts_json(machine.facts)).run();
  Statement find(*database_, "SELECT id FROM machine WHERE fingerprint = ?");
  find.bind(machine.fingerprint).step();
  return find.integer(0);
}

int64_t History::series_id(const SeriesInfo& s) {
  // What is known of a job may change, such as its count of bytes: the latest counts.
  Statement insert(*database_,
                   "INSERT INTO series(key, case_name, family, op, impl, device, dtype, scope, cache, threads, "
                   "params_json, flops, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO "
                   "UPDATE SET case_name = excluded.case_name, family = excluded.family, params_json = "
                   "excluded.params_json, flops = excluded.flops, bytes = excluded.bytes RETURNING id");
  insert.bind(s.key, s.case_name, s.family, s.op, s.impl, s.device, s.dtype, s.scope, s.cache, s.threads, s.params_json,
              s.flops, s.bytes);
  insert.step();
  const int64_t id = insert.integer(0);
  insert.run();
  return id;
}

Added History::add(const Conversion& run) {
  Transaction transaction(*database_);
  const Added added = insert(run.machine, run.series, run.record);
  transaction.commit();
  return added;
}

Added History::insert(const MachineInfo& machine, const std::vector<SeriesInfo>& series, const RunRecord& record) {
  const RunInfo& info = record.info;
  if (const auto number = number_of(info.name)) {
    const RunRecord there = this->record(*number);
    if (there.info.started_at == info.started_at && there.measurements == record.measurements &&
        there.failures == record.failures)
      return Added::already_there;
    throw Error("run {}: is there already, as run {}, with other content; nothing was changed", shown(info.name),
                *number);
  }
  for (const auto& [what, text] :
       {std::pair{"the note", &info.note}, {"the branch", &info.branch}, {"the time of the commit", &info.commit_time}})
    require_text(what, *text);
  std::optional<int64_t> confirms;
  if (info.confirms) {
    confirms = number_of(*info.confirms);
    if (!confirms) throw Error("run {}: confirms run {}, which is not there", shown(info.name), shown(*info.confirms));
  }
  const int64_t machine_number = machine_id(machine);
  const std::string environment = facts_json(info.environment);
  Statement(*database_, "INSERT INTO environment(facts_json) VALUES (?) ON CONFLICT DO NOTHING")
      .bind(environment)
      .run();
  Statement find(*database_, "SELECT id FROM environment WHERE facts_json = ?");
  find.bind(environment).step();
  Statement(*database_,
            "INSERT INTO run(machine, host, name, started_at, git_sha, dirty, branch, commit_time, reason, trust, "
            "environment, gpu_clock_mhz, confirms, valid, note, series, failures_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
            "?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(machine_number, info.name.host, info.name.id, info.started_at, info.git_sha, info.dirty, info.branch,
            info.commit_time, info.reason, info.trust, find.integer(0), info.gpu_clock_mhz, confirms, info.valid,
            info.note, static_cast<int64_t>(record.measurements.size()), failures_json(record.failures))
      .run();
  const int64_t number = database_->last_id();

  for (const SeriesInfo& s : series) series_id(s);
  Statement series_of_key(*database_, "SELECT id FROM series WHERE key = ?");
  Statement result(
      *database_,
      "INSERT INTO result(series, run, median_s, lo_s, hi_s, min_s, medians_json, disturbed) VALUES (?, ?, "
      "?, ?, ?, ?, ?, ?)");
  for (const Measurement& m : record.measurements) {
    require_times(shown(info.name), m);
    if (!series_of_key.bind(m.key).step())
      throw Error("run {}: has a result of the series {}, which no line describes", shown(info.name), m.key);
    result
        .bind(series_of_key.integer(0), number, m.median_s, m.lo_s, m.hi_s, m.min_s, times_json(m.medians_s),
              m.disturbed)
        .run();
  }
  return Added::added;
}

void History::insert_mark(const Mark& mark) {
  const auto run = number_of(mark.run);
  if (!run) throw Error("a mark names run {}, which is not there", shown(mark.run));
  require_text("the note", mark.note);
  Statement find(*database_, "SELECT id FROM series WHERE key = ?");
  if (!find.bind(mark.key).step()) throw Error("a mark names the series {}, which is not there", mark.key);
  Statement(*database_,
            "INSERT INTO mark(series, run, note) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET note = excluded.note")
      .bind(find.integer(0), *run, mark.note)
      .run();
}

History::Imported History::import_lines(const std::string& name, const std::string& text) {
  Imported counts;
  std::map<std::string, MachineInfo> machines;
  Transaction transaction(*database_);
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    const std::string where = fmt::format("{}, line {}", name, ++number);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Line held = parse_line(where, line);
    try {
      if (const auto* machine = std::get_if<MachineInfo>(&held)) {
        machines[machine->fingerprint] = *machine;
      } else if (const auto* series = std::get_if<SeriesInfo>(&held)) {
        series_id(*series);
      } else if (const auto* run = std::get_if<RunRecord>(&held)) {
        const auto machine_of_run = machines.find(run->info.name.fingerprint);
        if (machine_of_run == machines.end())
          throw Error("no line above describes the machine {}", run->info.name.fingerprint);
        ++(insert(machine_of_run->second, {}, *run) == Added::added ? counts.added : counts.already_there);
      } else if (const auto* mark = std::get_if<Mark>(&held)) {
        insert_mark(*mark);
        ++counts.marks;
      }
    } catch (const Error& error) {
      throw Error("{}: {}", where, error.what());
    }
  }
  transaction.commit();
  return counts;
}

void History::mark(int64_t run, const std::vector<std::string>& keys, const std::string& note) {
  Statement find(*database_, DUET_RUN_COLUMNS "WHERE run.id = ?");
  if (!find.bind(run).step()) throw Error("there is no run {}", run);
  const RunName name = listed(find).info.name;
  Transaction transaction(*database_);
  for (const std::string& key : keys) insert_mark({key, name, note});
  transaction.commit();
}

void History::set_valid(int64_t run, bool valid, const std::string& note) {
  require_text("the note", note);
  Transaction transaction(*database_);
  Statement(*database_, "UPDATE run SET valid = ?, note = ? WHERE id = ?").bind(valid, note, run).run();
  transaction.commit();
}

// --- reading

ListedRun History::listed(Statement& row) const {
  ListedRun run;
  run.number = row.integer(0);
  RunInfo& info = run.info;
  info.name = {row.text(1), row.text(2), row.text(3)};
  info.started_at = row.text(4);
  info.git_sha = row.text(5);
  info.dirty = row.integer(6) != 0;
  info.branch = row.text(7);
  info.commit_time = row.text(8);
  info.reason = row.text(9);
  info.trust = row.text(10);
  run.environment = row.integer(11);
  info.gpu_clock_mhz = row.optional_number(12);
  if (!row.is_null(13)) {
    Statement confirmed(*database_,
                        "SELECT machine.fingerprint, host, name FROM run JOIN machine ON machine.id = run.machine "
                        "WHERE run.id = ?");
    if (confirmed.bind(row.integer(13)).step())
      info.confirms = RunName{confirmed.text(0), confirmed.text(1), confirmed.text(2)};
  }
  info.valid = row.integer(14) != 0;
  info.note = row.text(15);
  run.series = row.integer(16);
  run.failures = row.integer(17);
  return run;
}

Facts History::environment(int64_t number) const {
  Statement statement(*database_, "SELECT facts_json FROM environment WHERE id = ?");
  statement.bind(number).step();
  return facts_from_json(database_->path(), statement.text(0));
}

std::vector<ListedRun> History::runs(size_t last) const {
  Statement statement(*database_, DUET_RUN_COLUMNS "ORDER BY run.started_at DESC, run.id DESC LIMIT ?");
  statement.bind(static_cast<int64_t>(std::min(last, size_t{INT64_MAX})));
  std::vector<ListedRun> runs;
  while (statement.step()) runs.push_back(listed(statement));
  std::reverse(runs.begin(), runs.end());
  return runs;
}

ListedRun History::find(const std::string& name) const {
  if (name == "latest") {
    const std::vector<ListedRun> newest = runs(1);
    if (newest.empty()) throw Error("{}: holds no run", database_->path());
    return newest.front();
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  Statement statement(*database_, DUET_RUN_COLUMNS "WHERE run.name = ?1 OR run.id = ?2");
  statement.bind(name, is_number ? std::optional(number) : std::nullopt);
  std::vector<ListedRun> found;
  while (statement.step()) found.push_back(listed(statement));
  if (found.empty()) throw Error("{}: holds no run '{}': duet history list shows them", database_->path(), name);
  if (found.size() > 1)
    throw Error("{}: '{}' means {} runs, such as {} and {}: give the number", database_->path(), name, found.size(),
                found[0].number, found[1].number);
  return found.front();
}

RunRecord History::record(int64_t run) const {
  Statement statement(*database_, DUET_RUN_COLUMNS "WHERE run.id = ?");
  if (!statement.bind(run).step()) throw Error("{}: holds no run {}", database_->path(), run);
  RunRecord record;
  const ListedRun listed_run = listed(statement);
  record.info = listed_run.info;
  record.info.environment = environment(listed_run.environment);
  Statement failures(*database_, "SELECT failures_json FROM run WHERE id = ?");
  failures.bind(run).step();
  record.failures = failures_from_json(database_->path(), failures.text(0));
  // One look-up a series: results are not kept by run.
  Statement results(*database_,
                    "SELECT key, median_s, lo_s, hi_s, min_s, medians_json, disturbed FROM series CROSS JOIN result ON "
                    "result.series = series.id AND result.run = ? ORDER BY key");
  results.bind(run);
  while (results.step())
    record.measurements.push_back({.key = results.text(0),
                                   .median_s = results.number(1),
                                   .lo_s = results.number(2),
                                   .hi_s = results.number(3),
                                   .min_s = results.number(4),
                                   .medians_s = times_from_json(database_->path(), results.text(5)),
                                   .disturbed = results.integer(6) != 0});
  return record;
}

std::vector<SeriesInfo> History::series_of(int64_t run) const {
  Statement statement(*database_,
                      "SELECT series.* FROM series CROSS JOIN result ON result.series = series.id AND result.run = ? "
                      "ORDER BY key");
  statement.bind(run);
  std::vector<SeriesInfo> series;
  while (statement.step()) read_series(statement, series.emplace_back());
  return series;
}

std::vector<MachineInfo> History::machines() const {
  Statement statement(*database_,
                      "SELECT fingerprint, facts_json FROM machine ORDER BY (SELECT max(started_at) FROM run WHERE "
                      "run.machine = machine.id) DESC, id");
  std::vector<MachineInfo> machines;
  while (statement.step())
    machines.push_back({statement.text(0), facts_from_json(database_->path(), statement.text(1))});
  return machines;
}

std::optional<int64_t> History::number_of(const RunName& name) const {
  Statement statement(
      *database_,
      "SELECT run.id FROM run JOIN machine ON machine.id = run.machine WHERE fingerprint = ? AND host = "
      "? AND name = ?");
  if (!statement.bind(name.fingerprint, name.host, name.id).step()) return {};
  return statement.integer(0);
}

std::optional<RunName> History::run_to_confirm(const RunInfo& confirming) const {
  Statement statement(*database_,
                      "SELECT host, name FROM run WHERE machine = (SELECT id FROM machine WHERE fingerprint = ?) AND "
                      "git_sha = ? AND dirty = ? AND reason <> 'confirm' AND valid AND started_at <= ? ORDER BY "
                      "started_at DESC, id DESC LIMIT 1");
  if (!statement.bind(confirming.name.fingerprint, confirming.git_sha, confirming.dirty, confirming.started_at).step())
    return {};
  return RunName{confirming.name.fingerprint, statement.text(0), statement.text(1)};
}

std::vector<int64_t> History::confirming_runs(int64_t run) const {
  Statement statement(*database_, "SELECT id FROM run WHERE confirms = ? AND valid ORDER BY started_at, id");
  statement.bind(run);
  std::vector<int64_t> numbers;
  while (statement.step()) numbers.push_back(statement.integer(0));
  return numbers;
}

Window History::window(const std::string& fingerprint, size_t last, std::optional<int64_t> until,
                       const std::function<bool(const SeriesInfo&)>& wanted) const {
  Window window;
  for (const MachineInfo& machine : machines())
    if (machine.fingerprint == fingerprint) window.machine = machine;
  if (last == 0 || window.machine.fingerprint.empty()) return window;

  std::string before_time = "9999";  // after every time
  int64_t before = INT64_MAX;
  std::optional<ListedRun> newest;
  if (until) {
    Statement statement(*database_, DUET_RUN_COLUMNS "WHERE run.id = ?");
    if (!statement.bind(*until).step()) throw Error("{}: holds no run {}", database_->path(), *until);
    newest = listed(statement);
    before_time = newest->info.started_at;
    before = newest->number;
  }
  Statement statement(*database_, DUET_RUN_COLUMNS
                      "WHERE run.machine = (SELECT id FROM machine WHERE fingerprint = ?) AND run.valid AND run.reason "
                      "NOT IN ('pr', 'confirm') AND (run.started_at, run.id) < (?, ?) ORDER BY run.started_at DESC, "
                      "run.id DESC LIMIT ?");
  statement.bind(fingerprint, before_time, before,
                 static_cast<int64_t>(std::min(last - (newest ? 1 : 0), size_t{INT64_MAX})));
  while (statement.step()) window.runs.push_back(listed(statement));
  std::reverse(window.runs.begin(), window.runs.end());
  if (newest) window.runs.push_back(std::move(*newest));
  if (window.runs.empty()) return window;

  std::unordered_map<int64_t, size_t> index_of;
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < window.runs.size(); ++i) {
    index_of.emplace(window.runs[i].number, i);
    if (const int64_t number = window.runs[i].environment; !window.environments.contains(number))
      window.environments.emplace(number, environment(number));
    first = std::min(first, window.runs[i].number);
  }
  Statement all_series(*database_, "SELECT * FROM series ORDER BY family, key");
  Statement results(
      *database_, "SELECT run, median_s, lo_s, hi_s, disturbed FROM result WHERE series = ? AND run >= ? ORDER BY run");
  Statement marks(
      *database_,
      "SELECT run.started_at, run.id, mark.note FROM mark JOIN run ON run.id = mark.run WHERE mark.series = "
      "? AND run.machine = (SELECT id FROM machine WHERE fingerprint = ?) AND run.started_at <= ? ORDER BY "
      "run.started_at DESC, run.id DESC LIMIT 1");
  while (all_series.step()) {
    SeriesHistory series;
    read_series(all_series, series.info);
    if (wanted && !wanted(series.info)) continue;
    results.bind(all_series.integer(0), first);
    while (results.step())
      if (const auto at = index_of.find(results.integer(0)); at != index_of.end())
        series.points.push_back(
            {at->second, results.number(1), results.number(2), results.number(3), results.integer(4) != 0});
    if (series.points.empty()) continue;
    std::sort(series.points.begin(), series.points.end(), [](const Point& a, const Point& b) { return a.run < b.run; });
    marks.bind(all_series.integer(0), fingerprint, window.runs.back().info.started_at);
    if (marks.step()) {
      series.has_mark = true;
      series.mark_note = marks.text(2);
      const std::pair time(marks.text(0), marks.integer(1));
      const auto at = std::find_if(window.runs.begin(), window.runs.end(), [&](const ListedRun& run) {
        return std::pair(run.info.started_at, run.number) >= time;
      });
      if (at != window.runs.begin()) series.normal = static_cast<size_t>(at - window.runs.begin());
    }
    window.series.push_back(std::move(series));
  }
  return window;
}

void History::export_lines(const std::function<void(const std::string&)>& write) const {
  // One transaction: what another process adds meanwhile appears whole or not at all.
  database_->execute("BEGIN");
  write(line_text(Head{}));
  Statement machines(*database_, "SELECT fingerprint, facts_json FROM machine ORDER BY fingerprint");
  while (machines.step())
    write(line_text(MachineInfo{machines.text(0), facts_from_json(database_->path(), machines.text(1))}));
  Statement all_series(*database_, "SELECT * FROM series ORDER BY key");
  while (all_series.step()) {
    SeriesInfo series;
    read_series(all_series, series);
    write(line_text(series));
  }
  Statement runs(*database_,
                 "SELECT run.id FROM run JOIN machine ON machine.id = run.machine ORDER BY started_at, reason = "
                 "'confirm', fingerprint, host, name");
  while (runs.step()) write(line_text(record(runs.integer(0))));
  Statement marks(
      *database_,
      "SELECT series.key, machine.fingerprint, run.host, run.name, mark.note FROM mark JOIN series ON "
      "series.id = mark.series JOIN run ON run.id = mark.run JOIN machine ON machine.id = run.machine ORDER "
      "BY series.key, run.started_at, machine.fingerprint, run.host, run.name");
  while (marks.step())
    write(line_text(Mark{marks.text(0), {marks.text(1), marks.text(2), marks.text(3)}, marks.text(4)}));
  database_->execute("COMMIT");
}

std::vector<BaselineRun> baseline(const std::string& database, const std::string& fingerprint,
                                  const std::function<bool(const RunInfo&)>& wanted, size_t max_runs) {
  const Window window = History(database, Access::read).window(fingerprint, kSearched);
  std::vector<BaselineRun> runs;
  std::map<size_t, size_t> place_of;  // in `runs`, by index of the window's
  size_t first = window.runs.size();  // of the window's runs
  std::vector<RunInfo> infos;
  for (const ListedRun& run : window.runs) {
    infos.push_back(run.info);
    infos.back().environment = window.environments.at(run.environment);
  }
  std::vector<size_t> chosen;
  while (first > 0 && chosen.size() < max_runs)
    if (wanted(infos[--first])) chosen.push_back(first);
  std::reverse(chosen.begin(), chosen.end());
  for (const size_t i : chosen) {
    place_of[i] = runs.size();
    runs.push_back({std::move(infos[i]), {}});
  }
  for (const SeriesHistory& series : window.series)
    for (const Point& point : series.points)
      if (const auto at = place_of.find(point.run); at != place_of.end() && point.run >= series.normal.value_or(0))
        runs[at->second].medians_s.emplace_back(series.info.key, point.median_s);
  return runs;
}

}  // namespace duet::history
