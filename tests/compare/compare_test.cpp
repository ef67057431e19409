// SPDX-License-Identifier: Apache-2.0
// Verdicts of `duet compare` on invented runs. No number here is a measurement.
#include "reports/compare/compare.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "reports/render.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using namespace results;
using namespace results::testing;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using RunFile = results::Run;  // gtest has a Run of its own

constexpr const char* kJob = "relu/cpu.tuned/f32/n:64";

// Several processes of one repetition each, around time_s.
Series series_of_processes(double time_s, const std::vector<double>& factors) {
  Series s = make_series(Scope::call, time_s, 0.8, 4, Cache::warm, static_cast<int>(factors.size()));
  for (size_t i = 0; i < factors.size(); ++i) {
    const double t = time_s * factors[i];
    s.repetitions[i].samples_s = {t, t, t};
    s.repetitions[i].roof_s = {0.8 * t, 0.8 * t, 0.8 * t};
    s.repetitions[i].process = static_cast<int64_t>(i);
  }
  s.summary = summarise(s.repetitions);
  return s;
}

const std::vector<double> kSpread{0.99, 0.995, 1, 1.002, 1.006, 1.01};

RunFile processes_run(double time_s, const std::vector<double>& factors = kSpread) {
  RunFile run = make_run({make_job(kJob, {series_of_processes(time_s, factors)})});
  run.invocation.processes = static_cast<int64_t>(factors.size());
  return run;
}

RunFile one_process_run(double time_s) {
  return make_run({make_job(kJob, {make_series(Scope::call, time_s, 0.8, 4)})});
}

Comparison compared(const RunFile& base, const RunFile& head, const std::vector<std::string>& allowed = {}) {
  return compare_runs(measured(base, Metric::time), measured(head, Metric::time), {}, allowed);
}

ComparedRow only_row(const RunFile& base, const RunFile& head) {
  const Comparison c = compared(base, head);
  EXPECT_EQ(c.rows.size(), 1U);
  return c.rows.at(0);
}

std::string verdict_of(const RunFile& base, const RunFile& head) {
  const ComparedRow row = only_row(base, head);
  return fmt::format("{} {}", name_of(row.verdict), row.code);
}

TEST(Compare, ShiftsOfProcessesAreDecidedByTheirInterval) {
  const RunFile base = processes_run(1e-3);
  EXPECT_EQ(verdict_of(base, processes_run(1e-3)), "SAME within_floor");
  EXPECT_EQ(verdict_of(base, processes_run(1.01e-3)), "SAME within_floor");
  EXPECT_EQ(verdict_of(base, processes_run(1.028e-3)), "AMBIGUOUS interval_beyond_floor");
  EXPECT_EQ(verdict_of(base, processes_run(1e-3, {0.7, 0.8, 0.95, 1.05, 1.2, 1.3})), "AMBIGUOUS interval_beyond_floor")
      << "a shift of nothing, but the values say little";
  EXPECT_EQ(verdict_of(base, processes_run(1.05e-3)), "SLOWER beyond_floor");
  EXPECT_EQ(verdict_of(base, processes_run(0.95e-3)), "FASTER beyond_floor");
  EXPECT_EQ(verdict_of(base, processes_run(1.05e-3, {0.8, 0.9, 0.95, 1.05, 1.1, 1.2})),
            "AMBIGUOUS interval_contains_1");
  const ComparedRow row = only_row(base, processes_run(1.05e-3));
  EXPECT_NEAR(row.ratio.value, 1.05, 0.01);
  EXPECT_EQ(row.ratio.label, "95 %");
  EXPECT_LT(row.ratio.lo, 1.05);
  EXPECT_GT(row.ratio.hi, 1.05);
  EXPECT_NEAR(*row.p, 2.0 / 924, 1e-6);
}

TEST(Compare, OneProcessASideNeedsALargerShift) {
  const RunFile base = one_process_run(1e-3);
  EXPECT_EQ(verdict_of(base, one_process_run(1.05e-3)), "AMBIGUOUS one_process");
  EXPECT_EQ(verdict_of(base, one_process_run(1.2e-3)), "SLOWER beyond_floor");
  const Comparison c = compared(base, base);
  EXPECT_THAT(c.method.back(), HasSubstr("the intervals cover one process only"));
  EXPECT_THAT(compared(processes_run(1e-3), processes_run(1e-3)).method.back(), HasSubstr("the median of one process"));
}

TEST(Compare, ARunWithItselfIsTold) {
  RunFile other = one_process_run(1e-3);
  EXPECT_THAT(compared(one_process_run(1e-3), other).warnings, Contains(HasSubstr("are one run (id r1)")));
  other.invocation.id = "r2";
  EXPECT_THAT(compared(one_process_run(1e-3), other).warnings, IsEmpty());
}

TEST(Compare, LargeRatiosAreShort) {
  EXPECT_THAT(comparison_text(compared(one_process_run(1e-3), one_process_run(1e200)), true), HasSubstr(" 1.00e+203 "));
  EXPECT_THAT(comparison_text(compared(one_process_run(1e-3), one_process_run(1.5e-3)), true), HasSubstr(" 1.500 "));
}

TEST(Compare, TooFewValuesAndDisturbedRowsDecideNothing) {
  const auto few = [](double t, int values) {
    return make_run({make_job(kJob, {make_series(Scope::call, t, 0.8, 4, Cache::warm, values)})});
  };
  EXPECT_EQ(verdict_of(few(1e-3, 2), few(2e-3, 2)), "AMBIGUOUS too_few_values");
  EXPECT_EQ(verdict_of(few(1e-3, 3), few(2e-3, 3)), "AMBIGUOUS too_few_values") << "p is 0.1";
  EXPECT_THAT(compared(few(1e-3, 3), few(2e-3, 5)).warnings, Contains(HasSubstr("no row can be SLOWER or FASTER")));
  EXPECT_EQ(verdict_of(few(1e-3, 4), few(2e-3, 4)), "SLOWER beyond_floor");
  EXPECT_THAT(compared(few(1e-3, 4), few(2e-3, 4)).warnings, Not(Contains(HasSubstr("no row can be"))));
  RunFile noisy = processes_run(1.5e-3);
  noisy.jobs[0].series[0].flags = {flag::kDisturbed};
  EXPECT_EQ(verdict_of(processes_run(1e-3), noisy), "AMBIGUOUS disturbed");
  EXPECT_EQ(only_row(processes_run(1e-3), noisy).detail, "in head");
}

TEST(Compare, AnotherClockOfTheGpuExplainsAShift) {
  const auto gpu = [](double time_s, double clock) {
    Series s = series_of_processes(time_s, kSpread);
    for (Repetition& r : s.repetitions) r.sm_clock_mhz = clock;
    RunFile run = make_run({make_job("relu/cuda.tuned/f32/n:64", {s})});
    run.invocation.processes = 6;
    return run;
  };
  EXPECT_EQ(verdict_of(gpu(1e-3, 1800), gpu(1.2e-3, 1500)), "AMBIGUOUS clock");
  EXPECT_EQ(verdict_of(gpu(1e-3, 1800), gpu(1.5e-3, 1500)), "SLOWER beyond_floor");
  EXPECT_EQ(verdict_of(gpu(1e-3, 1800), gpu(1.2e-3, 1800)), "SLOWER beyond_floor");
  // The clock of a disturbed repetition does not count, as its time does not.
  RunFile loud = gpu(1.2e-3, 1500);
  std::vector<Repetition>& repetitions = loud.jobs[0].series[0].repetitions;
  for (size_t i = 0; i < 6; ++i) {
    Repetition slow = repetitions[i];
    for (double& t : slow.samples_s) t *= 3;
    slow.sm_clock_mhz = 500;
    slow.flags = {flag::kContended};
    repetitions.push_back(slow);
  }
  EXPECT_EQ(verdict_of(gpu(1e-3, 1800), loud), "AMBIGUOUS clock");
}

TEST(Compare, RowsOfOneSideAndFailures) {
  const RunFile both = one_process_run(1e-3);
  RunFile other = make_run({make_job("tanh/cpu.tuned/f32/n:64", {make_series(Scope::call, 1e-3, 0.8, 4)})});
  const Comparison c = compared(both, other);
  ASSERT_EQ(c.rows.size(), 2U);
  EXPECT_EQ(c.rows[0].code, "not_in_head");
  EXPECT_EQ(c.rows[0].verdict, Verdict::missing);
  EXPECT_EQ(c.rows[1].verdict, Verdict::added);
  EXPECT_EQ(c.compared(), 0U);
  EXPECT_THAT(answer(c), HasSubstr("Nothing could be compared"));
  EXPECT_THAT(answer(c), HasSubstr("1 missing in head; 1 new in head"));

  const RunFile failed = make_run({make_missing(kJob, Status::failed, "largest error is 3 times its bound")});
  const RunFile skipped = make_run({make_missing(kJob, Status::skipped, "no CUDA device")});
  EXPECT_EQ(verdict_of(both, failed), "ERROR failed_in_head");
  EXPECT_EQ(only_row(both, failed).detail, "largest error is 3 times its bound");
  EXPECT_EQ(verdict_of(both, skipped), "MISSING skipped_in_head");
  EXPECT_EQ(verdict_of(failed, both), "NEW failed_in_base");
  EXPECT_EQ(verdict_of(skipped, both), "NEW skipped_in_base");
  EXPECT_EQ(verdict_of(failed, failed), "ERROR failed_in_both");
  EXPECT_EQ(compared(skipped, skipped).without_result, 1U);
  EXPECT_TRUE(compared(skipped, skipped).rows.empty());
}

TEST(Compare, SuspectRowsAreNoResult) {
  RunFile suspect = one_process_run(1e-3);
  testing::set_fraction(suspect.jobs[0].series[0], 1.2);
  decide(suspect.jobs[0]);
  EXPECT_EQ(verdict_of(one_process_run(2e-3), suspect), "AMBIGUOUS not_comparable");
  EXPECT_FALSE(only_row(one_process_run(2e-3), suspect).has_ratio());
}

TEST(Compare, UnlikeRunsAreRefusedByTheKeyThatDiffers) {
  const RunFile base = one_process_run(1e-3);
  const auto message = [&](const RunFile& head, const std::vector<std::string>& allowed = {}) -> std::string {
    try {
      compared(base, head, allowed);
    } catch (const NotComparable& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message(base), "");
  RunFile head = base;
  head.machine.fingerprint = "other";
  EXPECT_THAT(message(head), HasSubstr("machine.fingerprint is 'f' in base and 'other' in head"));
  EXPECT_EQ(message(head, {"machine"}), "");
  EXPECT_EQ(message(head, {"machine.fingerprint"}), "");
  EXPECT_EQ(message(head, {"all"}), "");
  EXPECT_NE(message(head, {"machine.finger"}), "");
  head = base;
  head.build.type = "Debug";
  EXPECT_THAT(message(head), HasSubstr("build.type is 'Release' in base and 'Debug' in head"));
  head = base;
  head.build.libraries.emplace_back("simdjson", "3");  // reads run files
  EXPECT_EQ(message(head), "");
  head.build.libraries = {{"openblas", "0.4"}};
  EXPECT_THAT(message(head), HasSubstr("build.libraries.openblas"));
  head = base;
  head.build.libraries.clear();
  EXPECT_THAT(message(head), HasSubstr("is '0.3' in base and 'none' in head"));
  head = base;
  head.invocation.seed = 7;
  EXPECT_THAT(message(head), HasSubstr("settings.seed is '1' in base and '7' in head"));
  head = base;
  head.invocation.threads = 1;
  EXPECT_THAT(message(head), HasSubstr("settings.threads"));
  head = base;
  head.invocation.selection.budget_s = 0.5;
  EXPECT_THAT(message(head), HasSubstr("settings.min_time_s is '0.1' in base and '0.5' in head"));
  head = base;
  head.build.git_sha = "def";
  head.build.built_at = "2026-02-02T00:00:00Z";
  head.machine.kernel = "6.1.99";
  head.context.host_name = "another name of it";
  EXPECT_EQ(message(head), "") << "what a comparison is about, or changes without a reason";
  EXPECT_THROW(compared(base, base, {"bulid"}), Error);

  head.build.flags = "-O2";
  const Comparison c = compared(base, head, {"build.flags"});
  ASSERT_EQ(c.allowed.size(), 1U);
  EXPECT_THAT(comparison_text(c, false), HasSubstr("Compared although build.flags is '-O3' in base and '-O2' in head"));
}

TEST(Compare, SpeedupsAreOfTheBestOfEachSide) {
  const RunFile base = make_run(softmax_pair());
  RunFile head = base;
  for (Repetition& r : head.jobs[1].series[1].repetitions)
    for (double& t : r.samples_s) t *= 2;
  head.jobs[1].series[1].summary = summarise(head.jobs[1].series[1].repetitions);
  const Comparison c = compare_runs(measured(base, Metric::speedup), measured(head, Metric::speedup), {}, {});
  ASSERT_EQ(c.rows.size(), 3U);
  EXPECT_EQ(c.rows[0].name, "softmax/f32/rows:64/speedup/call/warm");
  EXPECT_EQ(c.rows[0].verdict, Verdict::slower);
  EXPECT_EQ(c.rows[0].note, "cuda.tuned over cpu.tuned");
  EXPECT_NEAR(c.rows[0].ratio.value, 2, 0.05);
  EXPECT_EQ(c.rows[1].verdict, Verdict::same);
  EXPECT_THAT(answer(c), HasSubstr("1 is lower (most: softmax/f32/rows:64/speedup/call/warm, 0.500×)"));
  EXPECT_THAT(comparison_text(c, false), HasSubstr("50.0×"));
}

TEST(Compare, FamiliesHaveGeometricMeansAndTotals) {
  const auto run = [](double a, double b) {
    return make_run({make_job("relu/cpu.tuned/f32/n:64", {make_series(Scope::call, a, 0.8, 4)}),
                     make_job("relu/cpu.tuned/f32/n:128", {make_series(Scope::call, b, 0.8, 4)})});
  };
  const Comparison c = compared(run(1e-3, 2e-3), run(2e-3, 1e-3));
  ASSERT_EQ(c.families.size(), 1U);
  EXPECT_NEAR(c.families[0].geometric_mean, 1, 1e-6);
  EXPECT_NEAR(c.families[0].base, 3e-3, 1e-9);
  EXPECT_NEAR(c.families[0].head, 3e-3, 1e-9);
  EXPECT_EQ(c.families[0].rows, 2U);
  EXPECT_EQ(c.rows[0].verdict, Verdict::slower) << "the worst row stands first";
  EXPECT_EQ(answer(c),
            "Of 2 times, 1 is slower (most: relu/cpu.tuned/f32/n:64/call/warm/threads:4, 2.00×), 1 faster (most: "
            "relu/cpu.tuned/f32/n:128/call/warm/threads:4, 0.500×), 0 the same, 0 ambiguous.");
}

TEST(Compare, OutputsHaveTheAnswerAndKeepMarkupAsText) {
  RunFile base = one_process_run(1e-3), head = one_process_run(1.5e-3);
  for (RunFile* run : {&base, &head}) {
    run->jobs[0].name = "relu/cpu.tuned/<b>|`\x1b[31m/n:64";
    run->invocation.warnings = {"w"};
  }
  const Comparison c = compared(base, head);
  const auto json = nlohmann::json::parse(comparison_json(c));
  EXPECT_EQ(json["duet_comparison"], 1);
  EXPECT_EQ(json["rows"][0]["verdict"], "SLOWER");
  EXPECT_EQ(json["rows"][0]["ratio"]["interval"], "95 %");
  EXPECT_NEAR(json["rows"][0]["ratio"]["value"].get<double>(), 1.5, 0.02);
  EXPECT_EQ(json["counts"]["SLOWER"], 1);
  EXPECT_EQ(json["answer"], answer(c));
  const std::string markdown = render_markdown(comparison_document(c));
  EXPECT_THAT(markdown, HasSubstr("&lt;b&gt;\\|"));
  EXPECT_THAT(markdown, Not(HasSubstr("<b>|")));
  EXPECT_THAT(markdown, HasSubstr("SLOWER"));
  const std::string text = comparison_text(c, false);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("1 is slower"));
}

TEST(Compare, TenThousandRowsTakeLittle) {
  std::vector<Job> jobs;
  for (int i = 0; i < 10'000; ++i)
    jobs.push_back(make_job("relu/cpu.tuned/f32/n:" + std::to_string(i), {make_series(Scope::call, 1e-3, 0.8, 4)}));
  const RunFile run = make_run(std::move(jobs));
  const Comparison c = compared(run, run);
  EXPECT_EQ(c.count(Verdict::same), 10'000U);
  EXPECT_GT(comparison_json(c).size(), 1'000'000U);
  const std::string markdown = render_markdown(comparison_document(c));
  EXPECT_LT(markdown.size(), 200'000U);
}

// --- Google Benchmark's own files

std::string google(const std::string& rows) {
  return R"({"context": {"date": "2026-01-01", "host_name": "h", "num_cpus": 4, "library_build_type": "release"},
 "benchmarks": [)" +
         rows + "]}";
}

std::string iteration(const std::string& name, int index, const std::string& time, const std::string& unit) {
  return fmt::format(
      R"({{"name": "{}", "run_name": "{}", "run_type": "iteration", "repetition_index": {}, "iterations": 10,
 "real_time": {}, "cpu_time": 1, "time_unit": "{}"}})",
      name, name, index, time, unit);
}

MeasuredRun read_google(const std::string& text) {
  const Scratch scratch;
  return load_measured(scratch.write("g.json", text));
}

TEST(CompareGoogleBenchmark, RepetitionsAreValuesInAnyUnit) {
  const MeasuredRun run =
      read_google(google(iteration("BM_a/8", 0, "1000", "ns") + "," + iteration("BM_a/8", 1, "1.1", "us") + "," +
                         iteration("BM_b", 0, "0.002", "ms")));
  ASSERT_EQ(run.rows.size(), 2U);
  EXPECT_EQ(run.kind, "Google Benchmark");
  ASSERT_EQ(run.rows[0].values.size(), 2U);
  EXPECT_DOUBLE_EQ(run.rows[0].values[0], 1e-6);
  EXPECT_DOUBLE_EQ(run.rows[0].values[1], 1.1e-6);
  EXPECT_EQ(run.rows[0].family, "BM_a");
  EXPECT_DOUBLE_EQ(run.rows[1].value, 2e-6);
}

TEST(CompareGoogleBenchmark, AggregatesCountWhereThereIsNothingElse) {
  const std::string aggregates =
      R"({"name": "a_mean", "run_name": "a", "run_type": "aggregate", "aggregate_name": "mean",
    "real_time": 3, "time_unit": "s"},
    {"name": "a_median", "run_name": "a", "run_type": "aggregate", "aggregate_name": "median", "real_time": 2,
     "time_unit": "s"},
    {"name": "a_cv", "run_name": "a", "run_type": "aggregate", "aggregate_name": "cv", "aggregate_unit": "percentage",
     "real_time": 0.1, "time_unit": "s"},
    {"name": "c_BigO", "run_name": "c", "run_type": "aggregate", "aggregate_name": "BigO", "real_coefficient": 1})";
  const MeasuredRun run = read_google(google(aggregates));
  ASSERT_EQ(run.rows.size(), 1U) << "a complexity is no time";
  EXPECT_EQ(run.rows[0].value, 2);
}

TEST(CompareGoogleBenchmark, ErrorsAreRowsWithoutAValue) {
  const std::string text = google(R"({"name": "a", "error_occurred": true, "error_message": "no device", "real_time": 0,
    "time_unit": "ns"}, {"name": "b", "skipped": true, "skip_message": "later", "real_time": 0, "time_unit": "ns"})");
  const MeasuredRun run = read_google(text);
  EXPECT_EQ(run.rows[0].reason, "no device");
  EXPECT_EQ(run.rows[1].reason, "later");
  EXPECT_EQ(compare_runs(run, run, {}, {}).rows[0].code, "failed_in_both");
}

TEST(CompareGoogleBenchmark, EitherSideMayBeOne) {
  const RunFile duet = one_process_run(1e-3);
  const std::string name = std::string(kJob) + "/call/warm/threads:4";
  std::string rows;
  for (int i = 0; i < 5; ++i) rows += (i ? "," : "") + iteration(name, i, std::to_string(2 + 0.01 * i), "ms");
  const Scratch scratch;
  const MeasuredRun other = load_measured(scratch.write("g.json", google(rows)));
  EXPECT_THROW(compare_runs(measured(duet, Metric::time), other, {}, {}), NotComparable) << "another host";
  const Comparison c = compare_runs(measured(duet, Metric::time), other, {}, {"context.host_name"});
  ASSERT_EQ(c.rows.size(), 1U);
  EXPECT_EQ(c.rows[0].verdict, Verdict::slower);
  EXPECT_NEAR(c.rows[0].ratio.value, 2.02, 0.02);
  // What Duet writes is itself such a file, with the same rows.
  auto document = nlohmann::ordered_json::parse(run_text(duet));
  document.erase("duet");
  const MeasuredRun as_google = load_measured(scratch.write("d.json", document.dump()));
  const Comparison same = compare_runs(measured(duet, Metric::time), as_google, {}, {});
  ASSERT_EQ(same.rows.size(), 1U);
  EXPECT_EQ(same.rows[0].verdict, Verdict::same);
  EXPECT_NEAR(same.rows[0].ratio.value, 1, 1e-9);
}

TEST(CompareGoogleBenchmark, BadFilesSayWhatIsWrong) {
  const Scratch scratch;
  const auto message = [&](const std::string& text) -> std::string {
    try {
      load_measured(scratch.write("x.json", text));
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_THAT(message(google(iteration("a", 0, "0", "ns"))), HasSubstr("real_time: 0 is not a number above 0"));
  EXPECT_THAT(message(google(iteration("a", 0, "-1", "ns"))), HasSubstr("-1 is not a number above 0"));
  EXPECT_THAT(message(google(iteration("a", 0, "NaN", "ns"))), HasSubstr("not JSON"));
  EXPECT_THAT(message(google(iteration("a", 0, "1", "h"))), HasSubstr("\"h\" is not one of ns, us, ms, s"));
  EXPECT_THAT(message(google(iteration("a", 0, "\"1\"", "ns"))), HasSubstr("is not a number"));
  EXPECT_THAT(message(google(iteration("a", 3, "1", "ns") + "," + iteration("a", 3, "1", "ns"))),
              HasSubstr("\"a\" occurs twice as repetition 3"));
  EXPECT_THAT(message(google("{}")), HasSubstr("member 'name' is missing"));
  EXPECT_THAT(message("{\"a\": 1}"), HasSubstr("neither a run file of bench_all nor JSON of Google Benchmark"));
  EXPECT_THAT(message("[1]"), HasSubstr("not an object"));
  EXPECT_THAT(message(google("").substr(0, 60)), HasSubstr("the file ends too early"));
  EXPECT_THAT(message("garbage"), HasSubstr("not JSON"));
  EXPECT_THAT(message("{\"duet\": {\"schema\": 99}}"), HasSubstr("99 is newer than"));
  EXPECT_THROW(load_measured((scratch / "none.json").string()), Error);
  EXPECT_THROW(load_measured(scratch.write("g.json", google("")), Metric::speedup), Error);
}

}  // namespace
}  // namespace duet::reports
