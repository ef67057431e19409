// SPDX-License-Identifier: Apache-2.0
// Exports of a run (reports/export). tests/tool/export.py reads them back with other programs' readers.
#include "reports/export/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "core/error.h"
#include "reports/compare/compare.h"
#include "reports/render.h"
#include "tests/example/example_run.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using namespace results::testing;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;
using results::Cache;
using results::Job;
using results::Run;
using results::Scope;
using results::Status;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string error_of(const Run& run, const std::string& format) {
  try {
    export_text(run, format);
  } catch (const Error& e) {
    return e.what();
  }
  return "exported";
}

// A pair, a suspect job, one that failed and one that was skipped.
Run small_run() {
  std::vector<Job> jobs = softmax_pair();
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 1e-6, 1.2, 4)}));
  EXPECT_FALSE(jobs.back().comparable);
  jobs.push_back(make_missing("gemm/cuda.cublas/f16/m:8", Status::skipped, "no CUDA device"));
  jobs.push_back(make_missing("relu/cpu.naive/f32/n:8", Status::failed, "element 3 is 0.5, expected \"0.25\"\n"));
  jobs.back().repro = "duet op relu --check <x.npy";
  results::Run run = make_run(std::move(jobs));
  run.file = "run.json";
  return run;
}

TEST(Export, ListsItsFormats) {
  for (const ExportFormat& format : export_formats()) {
    EXPECT_FALSE(export_text(small_run(), format.name).empty());
    EXPECT_THAT(error_of(small_run(), "xml"), HasSubstr(format.name));
  }
  EXPECT_THAT(error_of(small_run(), "xml"), HasSubstr("format 'xml' is not one of gbench bencher "));
}

TEST(Export, TakesComparableSeriesOnly) {
  const results::Run run = small_run();
  const auto rows = exported_series(run);
  ASSERT_EQ(rows.size(), 5u) << "two of the CPU, three of the GPU; none that is suspect, skipped or failed";
  EXPECT_EQ(rows[0].name, "softmax/cpu.tuned/f32/rows:64/call/warm/threads:4");
  for (const char* format : {"bencher", "github-action-benchmark", "openmetrics", "benchfmt"}) {
    EXPECT_THAT(export_text(run, format), Not(HasSubstr("relu"))) << format;
    EXPECT_THAT(export_text(run, format), Not(HasSubstr("median\""))) << format << ": aggregates are no benchmarks";
  }
}

TEST(Export, RefusesTwoSeriesOfOneName) {
  results::Run run = small_run();
  run.jobs[0].series[1] = run.jobs[0].series[0];
  EXPECT_THAT(error_of(run, "bencher"), HasSubstr("run.json: softmax/cpu.tuned/f32/rows:64/call/warm/threads:4: two"));
}

TEST(Export, BencherHasNanosecondsAndTheInterval) {
  const Json json = Json::parse(bencher_text(small_run()));
  ASSERT_EQ(json.size(), 5u);
  const Json& latency = json["softmax/cuda.tuned/f32/rows:64/call/warm/threads:1"]["latency"];
  EXPECT_DOUBLE_EQ(latency["value"], 2e4);
  EXPECT_DOUBLE_EQ(latency["lower_value"], 0.99 * 2e4);
  EXPECT_DOUBLE_EQ(latency["upper_value"], 1.01 * 2e4);
}

TEST(Export, BencherRefusesNamesItWouldRefuse) {
  results::Run run = small_run();
  run.jobs[0].name += std::string(1024, 'x');
  EXPECT_THAT(error_of(run, "bencher"), HasSubstr("Bencher takes 1024"));
}

TEST(Export, GithubActionHasOneValueASeries) {
  const Json json = Json::parse(github_action_text(small_run()));
  ASSERT_EQ(json.size(), 5u);
  EXPECT_EQ(json[0]["unit"], "ns");
  EXPECT_DOUBLE_EQ(json[0]["value"], 1e6);
  EXPECT_EQ(json[0]["range"], "990000 to 1.01e+06");
  EXPECT_THAT(json[0]["extra"].get<std::string>(), HasSubstr("min-max of repetition medians\nCPU: a CPU\nGPU: a GPU"));
}

TEST(Export, OpenMetricsFamiliesStandTogether) {
  const std::vector<std::string> lines = lines_of(openmetrics_text(small_run()));
  EXPECT_EQ(lines.back(), "# EOF");
  std::vector<std::string> families;
  for (const std::string& line : lines) {
    if (line.starts_with("# TYPE ")) {
      families.push_back(line.substr(7, line.find(' ', 7) - 7));
      continue;
    }
    EXPECT_TRUE(line.starts_with("#") || line.starts_with(families.back())) << line;
    EXPECT_TRUE(!line.starts_with("# UNIT ") || families.back().ends_with("_" + line.substr(line.rfind(' ') + 1)))
        << line;
  }
  EXPECT_THAT(openmetrics_text(small_run()), HasSubstr("duet_jobs{status=\"skipped\"} 1\n"));
}

TEST(Export, OpenMetricsEscapesLabels) {
  results::Run run = small_run();
  run.jobs[0].name = "a\"b\\c\nd\x01";
  EXPECT_THAT(openmetrics_text(run), HasSubstr(R"(job_name="a\"b\\\\c\\nd\\x01")"));
}

TEST(Export, BenchfmtHasOneLineAValue) {
  results::Run run = small_run();
  const std::string text = benchfmt_text(run);
  const std::regex result(R"(Benchmark[A-Z]\S* [0-9]+ [0-9.e+]+ ns/op)");
  size_t results = 0;
  for (const std::string& line : lines_of(text)) {
    if (!line.starts_with("Benchmark")) continue;
    ++results;
    EXPECT_TRUE(std::regex_match(line, result)) << line;
  }
  EXPECT_EQ(results, 5u * 5u) << "five series of five repetitions";
  EXPECT_THAT(text, HasSubstr("BenchmarkSoftmax/impl=cpu.tuned/dtype=f32/rows=64/scope=call/cache=warm-4 3 990000"));
  EXPECT_THAT(text, HasSubstr("\ncpu: a CPU\ngpu: a GPU\n"));
  // Keys that change from run to run would put two runs into different tables of benchstat.
  EXPECT_THAT(text, Not(ContainsRegex("\n(commit|run|date)[^\n]*: ")));
  // A process is one value, however many repetitions it took.
  for (Job& job : run.jobs)
    for (results::Series& series : job.series)
      for (size_t i = 0; i < series.repetitions.size(); ++i) series.repetitions[i].process = i < 2 ? 0 : 1;
  EXPECT_EQ(count_in(benchfmt_text(run), "ns/op"), 5u * 2u);
}

TEST(Export, BenchfmtNamesHaveNoSpaces) {
  results::Run run = small_run();
  run.jobs[0].name = "soft max/cpu.tuned/f32/rows:64 \xC2\xA0:x%";
  run.jobs[0].op = "soft max";
  EXPECT_THAT(benchfmt_text(run),
              HasSubstr("BenchmarkSoft%20max/impl=cpu.tuned/dtype=f32/rows=64%20%c2%a0:x%25/scope=call"));
  run.jobs[0].name = "=1+1";
  EXPECT_THAT(benchfmt_text(run), HasSubstr("BenchmarkX=1+1/scope=call"));
}

TEST(Export, JunitCountsAndEscapes) {
  const std::string text = junit_text(small_run());
  EXPECT_THAT(text, HasSubstr("<testsuites name=\"duet\" tests=\"5\" failures=\"1\" errors=\"0\" skipped=\"2\""));
  EXPECT_THAT(text, HasSubstr("<failure type=\"failed\" message=\"element 3 is 0.5, expected &quot;0.25&quot;\\n\">"
                              "duet op relu --check &lt;x.npy</failure>"));
  EXPECT_THAT(text, HasSubstr("<skipped message=\"no CUDA device\"/>"));
  EXPECT_THAT(text, HasSubstr("call warm 4 threads: 1.00 ms (min-max of repetition medians: 990 µs to 1.01 ms)"));
  results::Run run = small_run();
  run.jobs[0].name = "a\x1b\x01\xEF\xBF\xBF]]>";
  EXPECT_THAT(junit_text(run), HasSubstr("name=\"a\\x1b\\x01\\uffff]]&gt;\""));
}

TEST(Export, ComparisonsBecomeFailuresWhereSomethingIsSlower) {
  const auto row = [](const char* name, const char* verdict, const Json& ratio) {
    return Json{{"name", name}, {"family", "norm"}, {"verdict", verdict}, {"reason", "so <it> is"}, {"ratio", ratio}};
  };
  Json json{{"duet_comparison", 1},
            {"title", "Comparison"},
            {"answer", "1 row is slower."},
            {"rows",
             {row("a", "SLOWER", {{"value", 1.25}}), row("b", "AMBIGUOUS", {{"value", 1.04}}),
              row("c", "SAME", {{"value", 1.0}}), row("d", "MISSING", nullptr), row("e", "NEW", nullptr)}}};
  EXPECT_TRUE(is_comparison(json.dump(1)));
  EXPECT_FALSE(is_comparison(results::run_text(small_run())));
  const std::string text = comparison_junit_text(json.dump(), "c.json");
  EXPECT_THAT(text,
              HasSubstr("<testsuites name=\"Comparison\" tests=\"5\" failures=\"2\" errors=\"0\" skipped=\"2\">"));
  EXPECT_THAT(text, HasSubstr("<failure type=\"SLOWER\" message=\"SLOWER: 1.25 times the base, so &lt;it&gt; is\"/>"));
  EXPECT_THAT(text, HasSubstr("<skipped message=\"AMBIGUOUS: 1.04 times the base, so &lt;it&gt; is\"/>"));
  json["metric"] = "speedup";  // stored inverted
  EXPECT_THAT(comparison_junit_text(json.dump(), "c.json"),
              HasSubstr("<failure type=\"SLOWER\" message=\"SLOWER: 0.8 times the base, so"));
  const auto refused = [](const Json& document) {
    try {
      comparison_junit_text(document.dump(), "c.json");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("exported");
  };
  json["rows"][2]["verdict"] = "SLOW";
  EXPECT_THAT(refused(json), HasSubstr("c.json: rows[2].verdict: \"SLOW\" is not one of SLOWER, ERROR"));
  json["duet_comparison"] = 2;
  EXPECT_THAT(refused(json), HasSubstr("2 is newer than 1"));
}

TEST(Export, AComparisonWithoutAVerdictIsAnError) {
  Comparison c;
  c.title = "Gate";
  c.failure = "head (<bench_all>) was killed by SIGSEGV";
  EXPECT_EQ(answer(c), "No verdict: head (<bench_all>) was killed by SIGSEGV.");
  EXPECT_THAT(render_markdown(comparison_document(c)), HasSubstr("No verdict: head"));
  const std::string text = comparison_junit_text(comparison_json(c), "c.json");
  EXPECT_THAT(text, HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\""));
  EXPECT_THAT(text, HasSubstr("<error message=\"head (&lt;bench_all&gt;) was killed by SIGSEGV\"/>"));
}

TEST(Export, CsvHoldsNoFormulas) {
  for (const char* name : {"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"}) {
    results::Run run = small_run();
    run.jobs[0].name = name;
    const std::string csv = export_text(run, "csv");
    EXPECT_THAT(csv, ContainsRegex("\n\"?'[=+@\t\r-]")) << name;
    EXPECT_THAT(csv, Not(ContainsRegex("\n\"?[=+@\t\r-]"))) << name;
    EXPECT_EQ(csv, render_csv(run));
  }
}

TEST(Export, HostileNamesPassEveryFormat) {
  const results::Run run = example_run({});
  for (const ExportFormat& format : export_formats()) {
    const std::string text = export_text(run, format.name);
    EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << format.name;
    EXPECT_THAT(text, Not(HasSubstr(" nan"))) << format.name;
  }
}

TEST(Export, VisibleKeepsDifferentTextsDifferent) {
  EXPECT_EQ(visible("a\nb\\\x7f\xC3\xA9"), "a\\nb\\\\\\x7f\xC3\xA9");
  EXPECT_NE(visible("\\n"), visible("\n"));
}

}  // namespace
}  // namespace duet::reports
