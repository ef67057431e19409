// SPDX-License-Identifier: Apache-2.0
#include "cli/history.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/exit_status.h"
#include "core/atomic_file.h"
#include "core/command_line.h"
#include "core/error.h"
#include "core/name_filter.h"
#include "core/regular_file.h"
#include "reports/compare/rows.h"
#include "reports/format.h"
#include "reports/history/dashboard.h"
#include "reports/history/json_lines.h"
#include "reports/history/trend.h"
#include "reports/render.h"
#include "results/run_file.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using history::Access;
using history::Added;
using history::Conversion;
using history::History;
using history::ListedRun;
using history::RunRecord;
using history::Status;
using history::Verdict;

struct Options {
  std::string database, reason = "local", branch, commit_time, note, run = "latest", filter, html, machine, out;
  std::vector<std::string> files;
  size_t last = 0;
  bool check = false, json = false, invalid = false, valid = false;
};

std::string read_text(const std::string& path) {
  constexpr int64_t kMaxBytes = int64_t{8} << 30;
  RegularFile file(path, kMaxBytes);
  std::string text(static_cast<size_t>(file.bytes), '\0');
  file.read(text.data(), file.bytes);
  return text;
}

std::string label(const ListedRun& run) { return fmt::format("run {} ({})", run.number, one_line(run.info.name.id)); }

// --- add

bool is_alarm(const Verdict& verdict) {
  return verdict.status == Status::slower || verdict.status == Status::slower_unconfirmed;
}

// One word of a POSIX shell, whatever the text holds: names and paths may come from foreign files.
std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// A command that measures again what looks slower, with the settings of the run: times of others would not confirm it.
std::string rerun_command(const std::vector<Verdict>& verdicts, const history::Facts& environment) {
  std::string options;
  const std::string cases = history::fact(environment, history::kCases);
  for (size_t begin = 0; begin < cases.size();) {
    const size_t end = std::min(cases.find(history::kBetweenCases, begin), cases.size());
    options += fmt::format(" --case {}", shell_quoted(one_line(cases.substr(begin, end - begin))));
    begin = end + std::string_view(history::kBetweenCases).size();
  }
  // --threads leaves out what runs on one thread, unless it is 1. A run that has both was started without it.
  const bool own_threads = history::fact(environment, "settings.threads") != "1" &&
                           std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
                             return verdict.status == Status::slower_unconfirmed && verdict.key.ends_with("/threads:1");
                           });
  for (const auto& [option, name] : {std::pair{"--scale", "settings.scale"},
                                     {"--seed", "settings.seed"},
                                     {"--threads", "settings.threads"},
                                     {"--min-time", "settings.min_time_s"}})
    if (const std::string value = history::fact(environment, name);
        !value.empty() && (cases.empty() || name != std::string_view("settings.scale")) &&
        !(own_threads && name == std::string_view("settings.threads")))
      options += fmt::format(" {} {}", option, shell_quoted(one_line(value)));
  std::vector<std::string> patterns;
  for (const Verdict& verdict : verdicts) {
    if (verdict.status != Status::slower_unconfirmed) continue;
    std::string job = verdict.key;
    for (int part = 0; part < 3; ++part) job.resize(std::min(job.rfind('/'), job.size()));  // scope, cache, threads
    std::string pattern = reports::literal_pattern(job);
    if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end()) patterns.push_back(std::move(pattern));
  }
  return fmt::format("bench_all --filter {}{} --json=out/confirm.json",
                     shell_quoted(fmt::format("^({})$", fmt::join(patterns, "|"))), options);
}

int run_add(const Options& o) {
  Conversion run = history::record_of(results::load_run(o.files.front()));
  run.record.info.reason = o.reason;
  run.record.info.branch = o.branch;
  if (!o.commit_time.empty()) history::require_utc("--commit-time", o.commit_time);
  run.record.info.commit_time = o.commit_time;
  if (!o.note.empty()) run.record.info.note = o.note;
  const bool confirms = o.reason == "confirm";
  History database(o.database, confirms ? Access::write : Access::create);
  if (confirms) {
    run.record.info.confirms = database.run_to_confirm(run.record.info);
    if (!run.record.info.confirms)
      throw Error("{}: holds no earlier run of this machine and commit that could be confirmed", o.database);
    const RunRecord confirmed = database.record(*database.number_of(*run.record.info.confirms));
    if (const std::string unlike = history::unlike_setting(run.record.info.environment, confirmed.info.environment);
        !unlike.empty())
      throw Error("{}: does not confirm run {}: {}", o.files.front(), confirmed.info.name.id, unlike);
  }
  const Added added = database.add(run);
  const auto number = database.number_of(run.record.info.name);
  ListedRun there = database.find(fmt::format("{}", *number));
  fmt::print("{}{}: {} series, {} without a result{}\n", label(there),
             added == Added::already_there ? " was there already" : "", there.series,
             reports::count_of(static_cast<size_t>(there.failures), "job"),
             there.info.valid ? "" : "; not valid: " + one_line(there.info.note));
  if (!there.info.valid) return 0;
  // A confirming run answers for the run that it repeats.
  if (there.info.confirms) there = database.find(fmt::format("{}", *database.number_of(*there.info.confirms)));
  const std::vector<Verdict> verdicts = history::verdicts_of(database, there);
  if (there.number != *number) fmt::print("confirms {}\n", label(there));
  fmt::print("{}\n", one_line(history::answer(verdicts)));
  for (const Verdict& verdict : verdicts)
    if (is_alarm(verdict) || verdict.status == Status::cleared)
      fmt::print("  {}: {}, {} of its usual {}, z {}: {}{}\n", one_line(verdict.key), reports::seconds(verdict.value_s),
                 history::change_text(verdict.score->change), history::usual_text(verdict), history::z_text(verdict),
                 to_text(verdict.status), verdict.disturbed ? " (measured while other processes ran)" : "");
  const bool waits = std::any_of(verdicts.begin(), verdicts.end(),
                                 [](const Verdict& v) { return v.status == Status::slower_unconfirmed; });
  if (waits)
    fmt::print("to confirm: {} && duet history add out/confirm.json --db {} --reason confirm\n",
               rerun_command(verdicts, database.record(there.number).info.environment),
               shell_quoted(one_line(o.database)));
  return o.check && std::any_of(verdicts.begin(), verdicts.end(), is_alarm) ? kFailed : 0;
}

// --- import

enum class Outcome { taken, skipped, refused };

// Whether a file that is no run of ours is well-formed JSON, such as what other programs leave in the same folder.
bool is_foreign(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return !json.is_discarded() && !(json.is_object() && (json.contains("duet") || json.contains("duet_journal")));
}

// `open` makes the database where there is none: not before there is something to keep.
Outcome import_file(const std::function<History&()>& open, const std::string& path, const std::string& reason) {
  const std::string shown = one_line(path);
  std::string text;
  std::optional<Conversion> run;
  bool is_export = false;
  try {
    text = read_text(path);
    is_export = history::is_export(text);
    if (is_export) {
      const History::Imported counts = open().import_lines(path, text);
      fmt::print("{}: {} added, {} there already, {}\n", shown,
                 reports::count_of(static_cast<size_t>(counts.added), "run"), counts.already_there,
                 reports::count_of(static_cast<size_t>(counts.marks), "mark"));
      return Outcome::taken;
    }
    results::Run loaded = results::load_run(path);
    if (!loaded.invocation.complete) {
      fmt::print(stderr, "duet: {}: skipped: the run is unfinished; bench_all --resume finishes it\n", shown);
      return Outcome::skipped;
    }
    run = history::record_of(loaded);
  } catch (const Error& error) {
    if (!is_export && is_foreign(text) && !text.empty()) {
      fmt::print(stderr, "duet: {}: skipped: JSON, but not a run file of bench_all\n", shown);
      return Outcome::skipped;
    }
    fmt::print(stderr, "duet: {}\n", one_line(error.what()));
    return Outcome::refused;
  }
  run->record.info.reason = reason;
  try {
    History& database = open();
    const Added added = database.add(*run);
    const int64_t number = *database.number_of(run->record.info.name);
    fmt::print("{}: {} as run {}, {} series{}\n", shown, added == Added::added ? "added" : "there already", number,
               run->record.measurements.size(),
               run->record.info.valid ? "" : "; not valid: " + one_line(run->record.info.note));
    return Outcome::taken;
  } catch (const Error& error) {  // of this run alone; what concerns the database is met again by the next file
    fmt::print(stderr, "duet: {}: {}\n", shown, one_line(error.what()));
    return Outcome::refused;
  }
}

int run_import(const Options& o) {
  std::optional<History> database;
  const auto open = [&]() -> History& {
    if (!database) database.emplace(o.database, Access::create);
    return *database;
  };
  const bool existed = fs::exists(o.database);
  if (existed) open();
  int64_t taken = 0, skipped = 0, refused = 0;
  for (const std::string& path : o.files) {
    const Outcome outcome = import_file(open, path, o.reason);
    ++(outcome == Outcome::taken ? taken : outcome == Outcome::skipped ? skipped : refused);
  }
  if (skipped + refused > 0 && o.files.size() > 1)
    fmt::print(stderr, "duet: of {} files, {} taken, {} skipped, {} refused\n", o.files.size(), taken, skipped,
               refused);
  if (!existed && database && database->runs(1).empty()) {  // opened for an export that was refused
    database.reset();
    std::error_code ignored;
    for (const char* end : {"", "-wal", "-shm"}) fs::remove(o.database + end, ignored);
  }
  return refused > 0 || taken == 0 ? kUsageError : 0;
}

// --- export, list, show

int run_export(const Options& o) {
  const History database(o.database, Access::read);
  if (o.out.empty()) {
    database.export_lines([](const std::string& line) { std::fwrite(line.data(), 1, line.size(), stdout); });
    return 0;
  }
  AtomicFile file(o.out);
  database.export_lines([&](const std::string& line) { file.write(line.data(), line.size()); });
  file.commit();
  fmt::print("{}\n", one_line(o.out));
  return 0;
}

int run_list(const Options& o) {
  const History database(o.database, Access::read);
  const std::vector<ListedRun> runs = database.runs(o.last);
  reports::Table table{{},
                       {{"run", true},
                        {"id"},
                        {"started at"},
                        {"machine"},
                        {"commit"},
                        {"branch"},
                        {"reason"},
                        {"series", true},
                        {"failed", true},
                        {"state"}},
                       {}};
  for (const ListedRun& run : runs) {
    const history::RunInfo& info = run.info;
    std::string state = info.valid ? info.trust : "not valid";
    if (!info.note.empty()) state += ": " + info.note;
    std::vector<reports::Cell> row;
    for (const std::string& text : {fmt::format("{}", run.number), info.name.id, info.started_at, info.name.fingerprint,
                                    info.git_sha.substr(0, 7) + (info.dirty ? ", changed" : ""), info.branch,
                                    info.reason, fmt::format("{}", run.series), fmt::format("{}", run.failures), state})
      row.push_back(reports::cell(one_line(text)));
    table.rows.push_back(std::move(row));
  }
  fmt::print("{}", runs.empty() ? "no runs\n" : render_text(table));
  return 0;
}

int run_show(const Options& o) {
  const History database(o.database, Access::read);
  const ListedRun run = database.find(o.run);
  const history::RunRecord record = database.record(run.number);
  if (o.json) {
    fmt::print("{}", history::line_text(record));
    return 0;
  }
  const history::RunInfo& info = record.info;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"run", fmt::format("{}", run.number)},
      {"id", info.name.id},
      {"host", info.name.host},
      {"machine", info.name.fingerprint},
      {"started at", info.started_at},
      {"commit", info.git_sha + (info.dirty ? ", changed" : "")},
      {"branch", info.branch},
      {"commit time", info.commit_time},
      {"reason", info.reason + (info.confirms ? ", confirms " + info.confirms->id : "")},
      {"state", info.valid ? info.trust : "not valid"},
      {"note", info.note}};
  facts.insert(facts.end(), info.environment.begin(), info.environment.end());
  for (const auto& [name, value] : facts)
    if (!value.empty()) fmt::print("{:<24} {}\n", one_line(name), one_line(value));
  std::map<std::string, Verdict> verdicts;
  for (Verdict& verdict : history::verdicts_of(database, run)) verdicts.emplace(verdict.key, std::move(verdict));
  reports::Table table{
      {}, {{"series"}, {"time", true}, {"change", true}, {"z", true}, {"against the runs before"}}, {}};
  for (const history::Measurement& m : record.measurements) {
    const Verdict& verdict = verdicts[m.key];
    table.rows.push_back({reports::cell(one_line(m.key)), reports::cell(reports::seconds(m.median_s)),
                          reports::cell(verdict.score ? history::change_text(verdict.score->change) : ""),
                          reports::cell(history::z_text(verdict)), reports::cell(to_text(verdict.status))});
  }
  fmt::print("\n{}", render_text(table));
  for (const history::Failure& failure : record.failures)
    fmt::print("{}: {}\n", one_line(failure.job), one_line(failure.reason));
  return 0;
}

// --- trend

int run_trend(const Options& o) {
  const History database(o.database, Access::read);
  const NameFilter filter(o.filter);
  history::TrendOptions options;
  options.last = o.last;
  options.machine = o.machine;
  if (!o.filter.empty()) options.wanted = [&](const history::SeriesInfo& series) { return filter.matches(series.key); };
  const std::vector<history::MachineTrend> trends = make_trend(database, options);
  if (trends.empty()) throw Error("{}: holds no valid run{}", o.database, o.machine.empty() ? "" : " of that machine");
  constexpr size_t kMaxRows = 20;  // of a terminal
  for (const history::MachineTrend& trend : trends) {
    fmt::print("{}\n{}\n", one_line(trend.machine_text()), one_line(answer(trend)));
    const reports::Table table = changes_table(trend, kMaxRows, trend.series.size() <= kMaxRows);
    if (!table.rows.empty()) {
      reports::Table shown = table;
      for (auto& row : shown.rows)
        for (reports::Cell& cell : row)
          for (reports::Span& span : cell.text) span.text = one_line(span.text);
      fmt::print("\n{}", render_text(shown));
    }
    fmt::print("\n");
  }
  if (o.html.empty()) return 0;
  const std::string page = render_html(make_dashboard(trends, o.database));
  std::error_code error;
  fs::create_directories(o.html, error);
  if (error) throw Error("{}: cannot be made a folder ({})", o.html, error.message());
  const std::string path = (fs::path(o.html) / "index.html").string();
  AtomicFile file(path);
  file.write(page.data(), page.size());
  file.commit();
  fmt::print("{}\n", one_line(path));
  return 0;
}

// --- ack

int run_ack(const Options& o) {
  const NameFilter filter(o.filter);
  History database(o.database, Access::write);
  const ListedRun run = database.find(o.run);
  if (o.invalid || o.valid) {
    database.set_valid(run.number, o.valid, o.note);
    fmt::print("{} is {}\n", label(run), o.valid ? "valid again" : "not valid: it is in no baseline and no trend");
    return 0;
  }
  std::vector<std::string> keys;
  for (const history::SeriesInfo& series : database.series_of(run.number))
    if (filter.matches(series.key)) keys.push_back(series.key);
  if (keys.empty()) throw Error("no series of {} matches '{}'", label(run), o.filter);
  database.mark(run.number, keys, o.note);
  fmt::print("{}: the new normal of {} series\n", label(run), keys.size());
  return 0;
}

}  // namespace

void add_history(CLI::App& app) {
  CLI::App* history =
      app.add_subcommand("history", "keep the runs of many commits in a database and show what changed");
  history->require_subcommand(1);
  const CLI::Validator count([](std::string& text) { return check_whole_number(text, 1, INT_MAX); }, "INT");
  const char* const which = "latest, a number of `duet history list`, or an id";
  CLI::App* command = nullptr;
  std::shared_ptr<Options> o;
  const auto begin = [&](const char* name, const char* what, int (*run)(const Options&)) {
    o = std::make_shared<Options>();
    command = history->add_subcommand(name, what);
    command->add_option("--db", o->database, "the database, a SQLite file")->required();
    command->callback([o, run] {
      if (const int status = run(*o)) throw CLI::RuntimeError(status);
    });
  };

  begin("add", "add one run and compare it with the runs before it on the same machine", run_add);
  command->add_option("RESULT.json", o->files, "run file written by bench_all")->required()->expected(1);
  command->add_option("--reason", o->reason, "why it was taken; pr and confirm runs enter no baseline")
      ->check(CLI::IsMember({"ci", "pr", "nightly", "local", "confirm"}))
      ->capture_default_str();
  command->add_option("--branch", o->branch, "branch of the commit");
  command->add_option("--commit-time", o->commit_time, "time of the commit in UTC, such as 2026-11-22T09:58:39Z");
  command->add_option("--note", o->note, "text kept with the run");
  command->add_flag("--check", o->check,
                    "exit with status 1 where a series is slower, confirmed or not yet; a locked "
                    "database or a full disk is status 5");

  begin("import",
        "add run files and exports; JSON of other programs and unfinished runs are skipped, and after a file "
        "that cannot be read the others are added and the exit status is 2",
        run_import);
  o->reason = "import";
  command->add_option("FILE", o->files, "run files of bench_all, or files written by `duet history export`")
      ->required();
  command->add_option("--reason", o->reason, "why the runs were taken; those of an export keep theirs")
      ->check(CLI::IsMember({"ci", "pr", "nightly", "local", "import"}))
      ->capture_default_str();

  begin("export", "write everything as lines of JSON, which import reads back", run_export);
  command->add_option("-o,--out", o->out, "file; standard output without it");

  begin("list", "runs, the newest last", run_list);
  o->last = 20;
  command->add_option("--last", o->last, "runs to show")->transform(count)->capture_default_str();

  begin("show", "one run with its environment, times and verdicts", run_show);
  command->add_option("RUN", o->run, which)->capture_default_str();
  command->add_flag("--json", o->json, "as the line of an export");

  begin("trend", "what changed: alarms of the latest run, changes of level, changes besides the code", run_trend);
  o->last = 200;
  command->add_option("--html", o->html, "folder for a page with charts, index.html");
  command->add_option("--filter", o->filter, "only series whose name contains a match of this regular expression");
  command->add_option("--last", o->last, "runs of each machine")->transform(count)->capture_default_str();
  command->add_option("--machine", o->machine, "only machines whose fingerprint begins so");

  begin("ack", "mark a change as the new normal, or a run as not valid", run_ack);
  command->add_option("RUN", o->run, std::string(which) + "; the first run of the new normal")->required();
  CLI::Option* filter =
      command->add_option("--filter", o->filter, "only series whose name contains a match of this regular expression");
  command->add_option("--note", o->note, "why");
  CLI::Option* invalid =
      command->add_flag("--invalid", o->invalid, "instead: the run is bad; it stays, in no baseline and no trend");
  invalid->excludes(filter);
  command->add_flag("--valid", o->valid, "instead: the run is good after all")->excludes(invalid)->excludes(filter);
}

}  // namespace duet
