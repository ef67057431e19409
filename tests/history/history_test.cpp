// SPDX-License-Identifier: Apache-2.0
// The database: what it keeps, what it refuses, and that what was there stays whatever goes wrong.
#include "reports/history/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "reports/history/json_lines.h"
#include "tests/history/generator.h"

namespace duet::history {
namespace {

namespace fs = std::filesystem;
using results::testing::count_in;
using results::testing::make_missing;
using results::testing::make_run;
using results::testing::read;
using results::testing::softmax_pair;
using testing::Generated;
using ::testing::HasSubstr;
using testing::Scratch;

const std::string kHostile = "\"><script>alert('x')</script>'; DROP TABLE run; -- \x01 \u202e ü =cmd()";

std::string lines_of(const History& history) {
  std::string text;
  history.export_lines([&](const std::string& line) { text += line; });
  return text;
}

template <class Thrown, class Function>
std::string error_of(Function&& function) {
  try {
    function();
  } catch (const Thrown& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

class HistoryTest : public ::testing::Test {
 protected:
  History open(Access access = Access::create, int wait_ms = 50) { return {path(), access, wait_ms}; }
  std::string path(const std::string& name = "h.sqlite") const { return (scratch / name).string(); }
  // As another program would change it.
  void run_sql(const std::string& sql) const {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &handle), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(handle);
    sqlite3_close(handle);
  }
  Scratch scratch;
  Generated made;
};

// --- a run file becomes a record

TEST_F(HistoryTest, KeepsWhatIsComparable) {
  std::vector<results::Job> jobs = softmax_pair();
  jobs.push_back(make_missing("relu/cpu.tuned/f32/n:8", results::Status::failed, "element 3 is wrong"));
  jobs.push_back(make_missing("relu/cuda.tuned/f32/n:8", results::Status::skipped, "no device"));
  const Conversion run = record_of(make_run(std::move(jobs)));
  ASSERT_EQ(run.record.measurements.size(), 5U);
  EXPECT_EQ(run.record.measurements[0].key, "softmax/cpu.tuned/f32/rows:64/call/warm/threads:1");
  EXPECT_EQ(run.record.measurements[1].median_s, 1e-3);
  EXPECT_EQ(run.record.measurements[1].medians_s.size(), 5U);
  EXPECT_EQ(run.record.failures, (std::vector<Failure>{{"relu/cpu.tuned/f32/n:8", "element 3 is wrong"}}));
  History history = open();
  EXPECT_EQ(history.add(run), Added::added);
  EXPECT_EQ(history.record(1), run.record);
  EXPECT_EQ(history.series_of(1).size(), 5U);
}

TEST_F(HistoryTest, ARunThatIsUnusableForRatiosIsNotValid) {
  results::Run run = make_run(softmax_pair());
  run.invocation.trust = results::Trust::unusable;
  run.invocation.doubts = {"a debug build"};
  EXPECT_FALSE(record_of(run).record.info.valid);
  EXPECT_EQ(record_of(run).record.info.note, "a debug build");
}

TEST_F(HistoryTest, RefusesAnUnfinishedRunAndOneWithoutATime) {
  results::Run run = make_run(softmax_pair());
  run.invocation.complete = false;
  EXPECT_THAT(error_of<Error>([&] { record_of(run); }), HasSubstr("unfinished"));
  run.invocation.complete = true;
  run.invocation.started_at = "yesterday";
  EXPECT_THAT(error_of<Error>([&] { record_of(run); }), HasSubstr("'yesterday' is no time in UTC"));
  for (const char* text :
       {"2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z"}) {
    run.invocation.started_at = text;
    EXPECT_THAT(error_of<Error>([&] { record_of(run); }), HasSubstr("is no time in UTC")) << text;
  }
}

// --- the database

TEST_F(HistoryTest, ARunIsKeptOnce) {
  History history = open();
  EXPECT_EQ(history.add(made.run(1)), Added::added);
  EXPECT_EQ(history.add(made.run(1)), Added::already_there);
  EXPECT_EQ(history.runs(10).size(), 1U);
  Conversion other = made.run(1);
  other.record.measurements[0].median_s *= 2;
  EXPECT_THAT(error_of<Error>([&] { history.add(other); }), HasSubstr("other content"));
  EXPECT_EQ(history.record(1), made.run(1).record);
}

TEST_F(HistoryTest, ExportAndImportGiveTheSameBytes) {
  std::string first;
  {
    History history = open();
    made.fill(history, 0, 30);
    Conversion hostile = made.run(40);
    hostile.record.info.note = hostile.record.info.branch = kHostile;
    hostile.record.info.name.host = std::string("zero\0inside", 11);
    hostile.record.info.confirms = made.run(29).record.info.name;
    hostile.record.info.reason = "confirm";
    hostile.record.info.gpu_clock_mhz = 1980.5;
    hostile.record.failures = {{kHostile, kHostile}};
    history.add(hostile);
    history.set_valid(3, false, "bad");
    history.mark(5, {made.key(0), made.key(2)}, kHostile);
    first = lines_of(history);
  }
  History copy(path("copy.sqlite"), Access::create);
  const History::Imported counts = copy.import_lines("first.jsonl", first);
  EXPECT_EQ(counts.added, 31);
  EXPECT_EQ(counts.marks, 2);
  EXPECT_EQ(lines_of(copy), first);
  EXPECT_EQ(copy.import_lines("first.jsonl", first).already_there, 31);
  EXPECT_EQ(lines_of(copy), first) << "a second import changes nothing";
  // Histories of two machines are merged by joining their exports.
  History merged(path("merged.sqlite"), Access::create);
  merged.import_lines("joined", first + first);
  EXPECT_EQ(lines_of(merged), first);
}

TEST_F(HistoryTest, AnImportWithABadLineAddsNothing) {
  History history = open();
  made.fill(history, 0, 3);
  const std::string before = lines_of(history);
  Scratch other;
  History source((other / "s.sqlite").string(), Access::create);
  made.fill(source, 10, 13);
  const std::string good = lines_of(source);
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    EXPECT_NE(text.rfind(what), std::string::npos) << what;
    return text.replace(text.rfind(what), what.size(), by);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good.substr(0, good.size() - 40), "is not JSON, or was cut"},
      {replaced("\"median_s\":", "\"median_s\":-"), "is not a number above 0"},
      {replaced("\"median_s\":", "\"median_s\":null,\"x\":"), "is not a number"},
      {replaced("\"median_s\":", "\"median_s\":NaN,\"x\":"), "is not JSON"},
      {replaced("\"lo_s\":", "\"lo_s\":1e300,\"x\":"), "is 1e+300; a number above 0 and below 1e+300 is expected"},
      {replaced("\"median_s\":", "\"median_s\":1e999,\"x\":"), "is not JSON"},
      {replaced("\"fingerprint\":\"f1\"", "\"fingerprint\":\"f2\""), "no line above describes the machine f2"},
      {replaced("2020-01-01T06:00:00Z", "2020-01-01 06:00"), "no time in UTC"},
      {replaced("{\"duet_history\":1}", "{\"duet_history\":2}"), "newer than the 1"},
      {replaced("\"key\":\"op3", "\"key\":\"xxx"), "which no line describes"},
      {replaced("\"reason\":\"ci\"", "\"reason\":\"fun\""), "is not one of"},
      {good + "{\"mark\":{\"key\":\"k\",\"fingerprint\":\"f1\",\"host\":\"h\",\"id\":\"i\",\"note\":\"\"}}\n",
       "a mark names run i of h, which is not there"},
      {good + std::string(100, '[') + std::string(100, ']'), "nested deeper"},
      {good + "[]\n", "line 10"}};
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of<Error>([&, &text = text] { history.import_lines("x.jsonl", text); }), HasSubstr(message));
    EXPECT_EQ(lines_of(history), before) << message;
  }
}

TEST_F(HistoryTest, FindsRunsByNumberIdAndLatest) {
  History history = open();
  EXPECT_THAT(error_of<Error>([&] { history.find("latest"); }), HasSubstr("holds no run"));
  made.fill(history, 0, 3);
  Conversion other = made.run(1);
  other.record.info.name.host = "host2";
  history.add(other);
  EXPECT_EQ(history.find("latest").info.name.id, "r000002");
  EXPECT_EQ(history.find("2").number, 2);
  EXPECT_EQ(history.find("r000000").number, 1);
  EXPECT_THAT(error_of<Error>([&] { history.find("r000001"); }), HasSubstr("means 2 runs"));
  EXPECT_THAT(error_of<Error>([&] { history.find("nothing"); }), HasSubstr("no run 'nothing'"));
  EXPECT_THAT(error_of<Error>([&] { history.find("99999999999999999999"); }), HasSubstr("holds no run"));
}

TEST_F(HistoryTest, TakesNoTextThatIsNotUtf8) {
  History history = open();
  made.fill(history, 0, 1);
  EXPECT_THAT(error_of<Error>([&] { history.set_valid(1, false, "\xff"); }), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_of<Error>([&] { history.mark(1, {made.key(0)}, "\xff"); }), HasSubstr("not UTF-8"));
  EXPECT_TRUE(history.find("1").info.valid);
}

TEST_F(HistoryTest, BaselineIsThatOfTheFingerprintSinceTheNewNormal) {
  {
    History history = open();
    made.fill(history, 0, 60);
    Conversion other = made.run(70);
    other.machine.fingerprint = other.record.info.name.fingerprint = "f2";
    history.add(other);
    history.set_valid(60, false, "");
    history.mark(31, {made.key(1)}, "");
  }
  const auto any = [](const RunInfo&) { return true; };
  const std::vector<BaselineRun> runs = baseline(path(), "f1", any, 40);
  ASSERT_EQ(runs.size(), 40U);
  EXPECT_EQ(runs.back().info.name.id, "r000058");
  EXPECT_EQ(runs.front().info.name.id, "r000019");
  EXPECT_EQ(runs.front().medians_s.size(), 3U) << "one series has a new normal, from run 30 on";
  EXPECT_EQ(runs.back().medians_s.size(), 4U);
  const auto first = std::min_element(runs.back().medians_s.begin(), runs.back().medians_s.end());
  EXPECT_EQ(first->first, made.key(0));
  EXPECT_TRUE(baseline(path(), "nowhere", any).empty());
}

TEST_F(HistoryTest, BaselineTakesTheLastRunsThatAreWanted) {
  {
    History history = open();
    for (int64_t number = 0; number < 30; ++number) {
      Conversion run = made.run(number);
      if (number % 3 == 0) run.record.info.environment.emplace_back("settings.odd", "yes");
      history.add(run);
    }
  }
  const auto odd = [](const RunInfo& info) { return fact(info.environment, "settings.odd") == "yes"; };
  const std::vector<BaselineRun> runs = baseline(path(), "f1", odd, 4);
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs.front().info.name.id, "r000018");
  EXPECT_EQ(runs.back().info.name.id, "r000027");
  EXPECT_EQ(runs.back().medians_s.size(), 4U);
}

TEST_F(HistoryTest, WindowsAreOrderedByTimeNotByWhenARunWasAdded) {
  History history = open();
  made.fill(history, 5, 10);
  made.fill(history, 0, 5);
  const Window window = history.window("f1", 7);
  ASSERT_EQ(window.runs.size(), 7U);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(window.runs[i].info.name.id, fmt::format("r{:06}", i + 3));
    for (const SeriesHistory& series : window.series) EXPECT_EQ(series.points[i].run, i);
  }
}

// --- files that cannot be used

TEST_F(HistoryTest, NamesWhatIsNoHistory) {
  EXPECT_THAT(error_of<Error>([&] { open(Access::read); }), HasSubstr("there is no such database"));
  EXPECT_THAT(error_of<Error>([&] { open(Access::write); }), HasSubstr("there is no such database"));
  EXPECT_FALSE(fs::exists(path()));
  scratch.write("h.sqlite",
                "this is text and no database, and long enough to be read as a header of one, which has 100 bytes");
  EXPECT_THAT(error_of<Error>([&] { open(); }), HasSubstr("is not a database of SQLite"));
  EXPECT_THAT(error_of<Error>([&] { History(scratch / "", Access::create); }), HasSubstr("not a regular file"));
  EXPECT_THAT(error_of<Error>([&] { History(path("no/such/folder.sqlite"), Access::create); }),
              HasSubstr("cannot be opened"));
  fs::remove(path());
  run_sql("CREATE TABLE run(x)");
  EXPECT_THAT(error_of<Error>([&] { open(); }), HasSubstr("database of another program"));
}

TEST_F(HistoryTest, RefusesANewerVersionAndLeavesItAlone) {
  open().add(made.run(0));
  run_sql("PRAGMA user_version = 7");
  for (const Access access : {Access::read, Access::write, Access::create})
    EXPECT_THAT(error_of<Error>([&] { open(access); }), HasSubstr("has version 7, which is newer than the 1"));
  run_sql("PRAGMA user_version = 1");
  EXPECT_EQ(open(Access::read).runs(9).size(), 1U);
}

TEST_F(HistoryTest, MigratesAllTheWayOrNotAtAll) {
  const std::vector<const char*> first = {"CREATE TABLE a(x); INSERT INTO a VALUES (5)"};
  const std::vector<const char*> failing = {first[0], "ALTER TABLE a ADD y", "ALTER TABLE nothing ADD z"};
  const std::vector<const char*> good = {first[0], "ALTER TABLE a ADD y", "UPDATE a SET y = x + 1"};
  Database database(path(), Access::create, 50);
  migrate(database, first);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 1);
  EXPECT_THROW(migrate(database, failing), Error);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 1);
  EXPECT_EQ(database.integer("SELECT count(*) FROM pragma_table_info('a')"), 1) << "the first step was undone, too";
  migrate(database, good);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 3);
  EXPECT_EQ(database.integer("SELECT y FROM a"), 6);
  EXPECT_THROW(migrate(database, first), Error) << "newer than the program";
}

TEST_F(HistoryTest, SaysThatAnotherProcessHasLockedIt) {
  History history = open();
  made.fill(history, 0, 2);
  Database other(path(), Access::write, 50);
  Transaction lock(other);
  EXPECT_THAT(error_of<std::runtime_error>([&] { history.add(made.run(2)); }),
              HasSubstr("another process has locked it"));
  EXPECT_EQ(history.runs(9).size(), 2U) << "reading goes on";
  EXPECT_EQ(open(Access::read).runs(9).size(), 2U);
}

TEST_F(HistoryTest, AFullDiskUndoesTheRun) {
  std::string before;
  {
    History history = open();
    made.fill(history, 0, 5);
    before = lines_of(history);
    history.database().execute("PRAGMA max_page_count = 1");  // no further page: as on a full disk
    Generated large = made;
    large.cases = 2000;
    EXPECT_THAT(error_of<std::runtime_error>([&] { history.add(large.run(9)); }), HasSubstr("the disk is full"));
    EXPECT_EQ(lines_of(history), before);
    EXPECT_THAT(error_of<std::runtime_error>([&] {
                  Scratch other;
                  History source((other / "s").string(), Access::create);
                  large.fill(source, 20, 21);
                  history.import_lines("x", lines_of(source));
                }),
                HasSubstr("the disk is full"));
    EXPECT_EQ(lines_of(history), before);
  }
  EXPECT_EQ(lines_of(open()), before);
}

TEST_F(HistoryTest, ADamagedPageIsNamed) {
  made.cases = 50;
  {
    History history = open();
    made.fill(history, 0, 30);
  }
  std::string bytes = read(path());
  std::fill(bytes.begin() + 8192, bytes.end(), '\x5a');  // all but the first pages, which hold the schema
  scratch.write("h.sqlite", bytes);
  EXPECT_THAT(error_of<Error>([&] { lines_of(open(Access::read)); }), HasSubstr("damaged"));
  EXPECT_THAT(error_of<Error>([&] { open().add(made.run(99)); }), HasSubstr("damaged"));
  EXPECT_EQ(read(path()), bytes);
}

// A folder in which nothing can be written while this lives. Root may write anywhere, so it is another user meanwhile.
class ReadOnly {
 public:
  ReadOnly(fs::path folder, const std::string& file) : folder_(std::move(folder)) {
    chmod(file.c_str(), 0444);
    chmod(folder_.c_str(), 0555);
    if (was_root_ && seteuid(65534) != 0) ADD_FAILURE();
  }
  ~ReadOnly() {
    if (was_root_ && seteuid(0) != 0) ADD_FAILURE();
    chmod(folder_.c_str(), 0755);
  }

 private:
  fs::path folder_;
  bool was_root_ = geteuid() == 0;
};

TEST_F(HistoryTest, AReadOnlyFileIsReadAndNotWritten) {
  std::string before;
  {
    History history = open();
    made.fill(history, 0, 3);
    before = lines_of(history);
  }
  {
    const ReadOnly guard(scratch / "", path());
    EXPECT_EQ(lines_of(open(Access::read)), before);
    EXPECT_THAT(error_of<Error>([&] { open().add(made.run(9)); }), HasSubstr("read-only"));
  }
  EXPECT_EQ(lines_of(open(Access::read)), before);
}

TEST_F(HistoryTest, TablesThatWereChangedByHandAreNamed) {
  { made.fill(*std::make_unique<History>(open()), 0, 3); }
  run_sql("ALTER TABLE result RENAME COLUMN median_s TO time");
  EXPECT_THAT(error_of<Error>([&] { open(Access::read).record(1); }), HasSubstr("tables were changed"));
}

TEST_F(HistoryTest, TheTablesRefuseWhatIsNoTime) {
  History history = open();
  Conversion run = made.run(0);
  for (const double value : {std::nan(""), HUGE_VAL, 0.0, -1.0}) {
    run.record.measurements[1].median_s = value;
    EXPECT_THROW(history.add(run), std::runtime_error) << value;
    EXPECT_TRUE(history.runs(9).empty()) << value;
  }
  EXPECT_THROW(history.database().execute("INSERT INTO environment(facts_json) VALUES ('{')"), std::runtime_error);
}

TEST_F(HistoryTest, UsesAWriteAheadLog) {
  History history = open();
  Statement mode(history.database(), "PRAGMA journal_mode");
  ASSERT_TRUE(mode.step());
  EXPECT_EQ(mode.text(0), "wal");
}

}  // namespace
}  // namespace duet::history
