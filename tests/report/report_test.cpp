// SPDX-License-Identifier: Apache-2.0
// What is written: structure of the page, escaping, charts, CSV, the console table, and nothing at all on an error.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>

#include "reports/document.h"
#include "reports/format.h"
#include "reports/report.h"
#include "reports/sha256.h"
#include "core/error.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

namespace fs = std::filesystem;
using results::testing::count_in;
using results::testing::decide;
using results::testing::make_job;
using results::testing::make_missing;
using results::testing::make_run;
using results::testing::make_series;
using results::testing::make_step;
using results::testing::read;
using results::testing::Scratch;
using results::testing::softmax_pair;

const std::string kHostile = "\"><script>alert('x')</script>&amp;|`*_]\n](javascript:x) \x01 ü";

struct Written {
  explicit Written(const results::Run& run, const ReportOptions& options = {}) {
    write_report(scratch.write("run.json", results::run_text(run)), (scratch / "out").string(), options);
    html = read(scratch / "out/report.html");
    markdown = read(scratch / "out/report.md");
    csv = read(scratch / "out/report.csv");
  }
  Scratch scratch;
  std::string html, markdown, csv;
};

results::Run full_run() {
  std::vector<Job> jobs = softmax_pair();
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 1e-6, 1.2, 4)}));
  jobs.push_back(make_missing("relu/cuda.tuned/f32/n:8", Status::failed, "element 3 is 0.5, expected 0.25"));
  jobs.push_back(make_missing("gemm/cuda.cublas/fp8/m:8", Status::skipped, "fp8 needs tn"));
  jobs.push_back(make_step("step/mlp/cpu/f32/batch:8", 0.85, {{"gemm", 0.5}, {"norm", 0.25}}, {{"forward", 0.4}}));
  jobs.back().flops = 0;  // no point of the roofline
  jobs.back().series[0].roof.reset();
  results::Run run = make_run(std::move(jobs));
  run.sweeps = {{"gelu", "", "n", {}, {{16, 1e-6, 5e-6, 2e-5}, {65536, 1e-3, 1e-5, 2e-3}}}};
  return run;
}

results::Run cpu_only_run() {
  std::vector<Job> jobs = {softmax_pair()[0]};
  for (int i = 0; i < 200; ++i)
    jobs.push_back(make_missing("op" + std::to_string(i % 7) + "/cuda.tuned/f32/n:" + std::to_string(i),
                                Status::skipped, "no CUDA device"));
  results::Run run = make_run(std::move(jobs));
  run.machine.gpu.reset();
  return run;
}

struct Tag {
  std::string name, attributes;
  bool closes = false, empty = false;  // </b>, <line/>
};

// The tag at text[begin] == '<'; `end` becomes the position after its '>'. Values of attributes are in double quotes.
Tag parse_tag(const std::string& text, size_t begin, size_t& end) {
  Tag tag;
  bool quoted = false;
  for (end = begin + 1; end < text.size() && (quoted || text[end] != '>'); ++end) {
    EXPECT_NE(text[end], '<') << text.substr(begin, 100);
    if (text[end] == '"') quoted = !quoted;
  }
  std::string inside = text.substr(begin + 1, end++ - begin - 1);
  if (inside.starts_with('/')) {
    tag.closes = true;
    inside.erase(0, 1);
  }
  if (inside.ends_with('/')) {
    tag.empty = true;
    inside.pop_back();
  }
  tag.name = inside.substr(0, inside.find(' '));
  tag.attributes = inside.substr(tag.name.size());
  EXPECT_TRUE(std::all_of(tag.name.begin(), tag.name.end(), [](unsigned char c) { return std::isalnum(c); })) << inside;
  return tag;
}

// Tags open and close in order, and no text looks like one; returns how often each was opened.
std::map<std::string, int> parse_markup(const std::string& markup) {
  std::map<std::string, int> count;
  std::vector<std::string> open;
  size_t at = markup.starts_with("<!doctype html>") ? 15 : 0;
  while (at < markup.size()) {
    const bool in_script = !open.empty() && open.back() == "script";  // its "<" is no tag
    const size_t begin = std::min(markup.find(in_script ? "</script" : "<", at), markup.size());
    const std::string text = markup.substr(at, begin - at);
    const bool in_style = !open.empty() && (open.back() == "style" || open.back() == "script");
    EXPECT_TRUE(in_style || text.find('>') == std::string::npos) << text.substr(0, 200);
    if (begin == markup.size()) break;
    const Tag tag = parse_tag(markup, begin, at);
    for (const char* forbidden : {" style=", " on", " href=\"h", " href=\"/", " href=\"j", " src"})
      EXPECT_EQ(tag.attributes.find(forbidden), std::string::npos) << tag.attributes;
    if (tag.closes) {
      EXPECT_TRUE(!open.empty() && open.back() == tag.name) << "</" << tag.name << "> closes something else";
      if (!open.empty()) open.pop_back();
      continue;
    }
    ++count[tag.name];
    if (!tag.empty && tag.name != "meta" && tag.name != "br") open.push_back(tag.name);
  }
  EXPECT_TRUE(open.empty()) << open.back();
  return count;
}

bool has_word(const std::string& text, const std::string& word) {
  const auto letter = [&](size_t at) { return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])); };
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (size_t at = lower.find(word); at != std::string::npos; at = lower.find(word, at + 1))
    if (!letter(at - 1) && !letter(at + word.size())) return true;
  return false;
}

TEST(ReportsReport, ThePageIsCompleteWithoutScriptsOrNetwork) {
  const Written report(full_run());
  auto count = parse_markup(report.html);
  EXPECT_EQ(count["script"], 1) << "sorting and filters";
  EXPECT_EQ(count_in(report.html, "<svg role=\"img\""), 8u)
      << "families and cases of speedups and of bandwidth, two rooflines, break-even, step";
  EXPECT_GE(count["table"], 8);
  EXPECT_EQ(count["desc"], 8);
  EXPECT_EQ(report.html.find("http:"), std::string::npos);
  EXPECT_EQ(report.html.find("https:"), std::string::npos);
  for (const char* word : {"nan", "inf", "infinity"}) EXPECT_FALSE(has_word(report.html, word)) << word;
  EXPECT_NE(report.html.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(report.html.find("<table class=\"nums sortable "), std::string::npos);
}

TEST(ReportsReport, ThePolicyAllowsTheOwnStyleAndScriptAlone) {
  const std::string html = Written(full_run()).html;
  const auto between = [&](const std::string& begin, const std::string& end) {
    const size_t from = html.find(begin) + begin.size();
    return html.substr(from, html.find(end, from) - from);
  };
  EXPECT_EQ(
      between("content=\"default-src ", "\">"),
      fmt::format("'none'; style-src 'sha256-{}'; script-src 'sha256-{}'",
                  sha256_base64(between("<style>", "</style>")), sha256_base64(between("<script>", "</script>"))));
}

TEST(ReportsReport, Sha256IsThatOfTheStandard) {
  EXPECT_EQ(sha256_base64(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(sha256_base64("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  // 56 bytes: the length needs a block of its own.
  EXPECT_EQ(sha256_base64("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
}

TEST(ReportsReport, SectionsStandInOrder) {
  const Written report(full_run());
  size_t html_at = 0, markdown_at = 0;
  for (const std::string title :
       {"Speedup", "Training steps", "Roofline", "Bandwidth", "Break-even", "Every case", "Without a result",
        "Ceilings", "All series", "Formulas", "Scopes and terms", "Environment"}) {
    const size_t in_html = report.html.find("<h2 id=\"" + slug(title) + "\">" + title + "</h2>"),
                 in_markdown = report.markdown.find("## " + title + "\n");
    ASSERT_NE(in_html, std::string::npos) << title;
    ASSERT_NE(in_markdown, std::string::npos) << title;
    EXPECT_GT(in_html, html_at) << title;
    EXPECT_NE(report.html.find("<a href=\"#" + slug(title) + "\">" + title + "</a>"), std::string::npos) << title;
    EXPECT_GT(in_markdown, markdown_at) << title;
    html_at = in_html;
    markdown_at = in_markdown;
  }
}

TEST(ReportsReport, EveryJobWithoutAResultIsThereWithItsReason) {
  for (const results::Run& run : {full_run(), cpu_only_run()}) {
    const Written report(run);
    for (const Job& job : run.jobs) {
      if (job.status == Status::ok) continue;
      for (const std::string& text : {job.name, job.reason})
        for (const std::string& file : {report.html, report.markdown, report.csv})
          EXPECT_NE(file.find(text), std::string::npos) << text;
    }
  }
}

TEST(ReportsReport, WhatWasOnlySampledIsThereWithItsReason) {
  results::Run run = full_run();
  run.jobs[0].check->coverage = "sampled";
  run.jobs[0].check->sampled_reason = "the reference would take 7 s";
  const Written report(run);
  for (const std::string& file : {report.html, report.markdown})
    EXPECT_NE(file.find("sampled: the reference would take 7 s"), std::string::npos);
}

TEST(ReportsReport, LongListsOfSkipsAreFolded) {
  const std::string html = Written(cpu_only_run()).html;
  const size_t fold = html.find("<details><summary>200 jobs: ");
  ASSERT_NE(fold, std::string::npos);
  EXPECT_LT(fold, html.find("op0/cuda.tuned/f32/n:0"));
  const std::string section =
      html.substr(html.find("<h2 id=\"without-a-result"), fold - html.find("<h2 id=\"without-a-result"));
  EXPECT_EQ(count_in(section, "no CUDA device"), 1u);
}

TEST(ReportsReport, WithoutAGpuItShowsCpuTimesAndShares) {
  const Written report(cpu_only_run());
  EXPECT_EQ(report.html.find("id=\"speedup\""), std::string::npos);
  EXPECT_NE(report.html.find("GPU: not measured (no CUDA device)"), std::string::npos);
  EXPECT_NE(report.html.find("80\u00a0%\u00a0memory"), std::string::npos) << "non-breaking space";
  EXPECT_NE(report.markdown.find("1.00 ms"), std::string::npos);
  parse_markup(report.html);
  results::Run nothing = make_run({});
  nothing.ceilings.clear();
  parse_markup(Written(nothing).html);
}

TEST(ReportsReport, HostileStringsStayText) {
  results::Run run = full_run();
  for (Job& job : run.jobs) {
    for (std::string* text : {&job.name, &job.op, &job.case_name, &job.impl, &job.dtype, &job.family, &job.formula})
      *text += kHostile;
    if (job.status != Status::ok) job.reason = kHostile;
    for (Series& series : job.series) {
      series.flags = {kHostile};
      series.summary.interval = kHostile;
      if (series.roof) series.roof->ceiling = kHostile;
    }
    set_verdict(job);
  }
  run.invocation.id = run.build.git_sha = run.machine.cpu.name = run.state.governor = kHostile;
  run.build.libraries = {{kHostile, kHostile}};
  run.jobs.back().step->nodes_s.emplace_back(kHostile, 0.125);
  run.jobs.back().step->residual_s -= 0.125;
  run.sweeps[0].op = run.sweeps[0].size_name = kHostile;
  run.ceilings[0].name = kHostile;
  const Written report(run);
  EXPECT_EQ(parse_markup(report.html)["script"], 1);
  EXPECT_EQ(report.markdown.find("<script"), std::string::npos);
  EXPECT_EQ(count_in(report.markdown, "](javascript"), count_in(report.markdown, "\\](javascript"));
  EXPECT_EQ(report.html.find('\x01'), std::string::npos);
  EXPECT_EQ(report.markdown.find('\x01'), std::string::npos);
  for (const auto& entry : fs::directory_iterator(report.scratch / "out")) {
    if (entry.path().extension() == ".svg") {
      EXPECT_EQ(parse_markup(read(entry.path()))["script"], 0) << entry.path();
    }
  }
  // A table row of Markdown keeps its number of cells.
  const size_t row = report.markdown.find("| **failed** |");
  ASSERT_NE(row, std::string::npos);
  const std::string line = report.markdown.substr(row, report.markdown.find('\n', row) - row);
  EXPECT_EQ(count_in(line, "|") - count_in(line, "\\|"), 4u) << line;
  EXPECT_EQ(console_table(run).find('\x01'), std::string::npos);
}

TEST(ReportsReport, MarkdownsChartsExistAndStandAlone) {
  const Written report(full_run());
  int charts = 0;
  for (size_t end = report.markdown.find(".svg)"); end != std::string::npos;
       end = report.markdown.find(".svg)", end + 1), ++charts) {
    const size_t begin = report.markdown.rfind("](", end) + 2;
    const std::string name = report.markdown.substr(begin, end + 4 - begin);
    const std::string svg = read(report.scratch / ("out/" + name));
    ASSERT_FALSE(svg.empty()) << name;
    EXPECT_NE(svg.find("xmlns=\"http://www.w3.org/2000/svg\""), std::string::npos);
    EXPECT_EQ(svg.find("var(--"), std::string::npos) << "colours are literal in a file";
    EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
    parse_markup(svg);
  }
  EXPECT_EQ(charts, 8);
}

TEST(ReportsReport, AStepHasItsThroughputPhasesAndMemory) {
  results::Run run = full_run();
  results::Step& step = *run.jobs.back().step;  // of 0.85 s
  step.samples = 0;
  EXPECT_EQ(Written(run).html.find(">samples/s<"), std::string::npos) << "nothing is made up";
  step.samples = 8;
  step.tokens = 1024;
  const Written report(run);
  for (const std::string& text : {report.html, report.markdown}) {
    EXPECT_NE(text.find("9.41"), std::string::npos);
    EXPECT_NE(text.find("1.20 k tokens/s"), std::string::npos);
    EXPECT_NE(text.find("4.00 KiB"), std::string::npos);
  }
  const std::string svg = read(report.scratch / "out/steps.svg");
  EXPECT_NE(svg.find("<title>forward: 400 ms</title>"), std::string::npos);
  EXPECT_NE(svg.find("residual +11.8 %<"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">residual -41.2 % within phases, +52.9 % beyond them<"), std::string::npos) << svg;
}

// A step on a GPU with the copy of its batch, before it and beside the one before.
TEST(ReportsReport, StepsShowTheCopyOfTheirBatch) {
  results::Run run = full_run();
  EXPECT_EQ(Written(run).html.find("With the copy of the batch"), std::string::npos) << "no step on a GPU";
  results::Job step = results::testing::make_step("step/mlp/gpu.graph/f32/batch:8", 0.4, {{"gemm", 0.4}});
  step.series[0].threads = 1;
  step.series.push_back(results::testing::make_series(results::Scope::end_to_end, 0.6, 0.1));
  run.jobs.push_back(step);
  EXPECT_EQ(Written(run).html.find("overlapped"), std::string::npos) << "nothing is made up";
  run.jobs.back().series.push_back(results::testing::make_series(results::Scope::overlapped, 0.45, 0.1));
  const Written report(run);
  for (const std::string& text : {report.html, report.markdown}) {
    EXPECT_NE(text.find("With the copy of the batch"), std::string::npos);
    EXPECT_NE(text.find("next copy overlapped"), std::string::npos);
    EXPECT_NE(text.find("450 ms"), std::string::npos);
    EXPECT_NE(text.find("75 %"), std::string::npos) << "of the 0.2 s of copies";
  }
  results::Job inference = results::testing::make_step("infer/mlp/gpu/f32/batch:1", 0.2, {{"gemm", 0.2}});
  inference.series[0].threads = 1;
  inference.series.push_back(results::testing::make_series(results::Scope::end_to_end, 0.3, 0.1));
  inference.series.push_back(results::testing::make_series(results::Scope::overlapped, 0.237, 0.1));
  run.jobs.push_back(inference);
  EXPECT_NE(Written(run).html.find("63 %"), std::string::npos) << "of the 0.1 s of an inference's copies";
}

TEST(ReportsReport, OpsOfAStepBeyondTheColoursAreAddedUp) {
  results::Run run = full_run();
  results::Step& step = *run.jobs.back().step;
  for (int i = 0; i < 12; ++i) {
    step.nodes_s.emplace_back("op" + std::to_string(i), 1e-3 * (i + 1));
    step.residual_s -= 1e-3 * (i + 1);
  }
  const Written report(run);
  const std::string svg = read(report.scratch / "out/steps.svg");
  EXPECT_EQ(count_in(svg, " of the step</title>"), 8u);
  EXPECT_NE(svg.find("<title>other: 28.0 ms, "), std::string::npos) << "1 + ... + 7 ms";
}

TEST(ReportsReport, LongChartsAreContinuedInFoldedOnes) {
  std::vector<Job> jobs;
  for (int i = 0; i < 25; ++i) {
    const std::string end = "/f32/n:" + std::to_string(i);
    jobs.push_back(make_job("relu/cpu.tuned" + end, {make_series(Scope::call, 1e-3, 0.8, 4)}));
    jobs.push_back(make_job("relu/cuda.tuned" + end, {make_series(Scope::call, 1e-4, 0.8)}));
  }
  const Written report(make_run(std::move(jobs)), {.rows_per_chart = 10});
  EXPECT_TRUE(fs::exists(report.scratch / "out/speedup_3.svg"));
  EXPECT_FALSE(fs::exists(report.scratch / "out/speedup_4.svg"));
  EXPECT_NE(report.html.find("25 cases, median GPU 10.0× by call</summary>"), std::string::npos);
  EXPECT_NE(report.markdown.find("25 cases, median GPU 10.0× by call</summary>"), std::string::npos);
}

std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '"' && text[i + 1] == '"')
      rows.back().back() += text[i++];
    else if (text[i] == '"')
      quoted = !quoted;
    else if (!quoted && text[i] == ',')
      rows.back().emplace_back();
    else if (!quoted && text.compare(i, 2, "\r\n") == 0) {
      rows.emplace_back(1);
      ++i;
    } else
      rows.back().back() += text[i];
  }
  rows.pop_back();
  return rows;
}

TEST(ReportsReport, CsvHasALinePerSeriesAndPerJobWithoutOne) {
  results::Run run = full_run();
  run.jobs[0].series[1].roof.reset();
  run.jobs[3].reason = "a, \"b\"\nc";
  run.jobs[3].repro = "duet op relu --check";
  const auto rows = parse_csv(Written(run).csv);
  ASSERT_EQ(rows.size(), 1u + 2 + 3 + 1 + 1 + 1 + 1);
  for (const auto& row : rows) ASSERT_EQ(row.size(), rows[0].size());
  const auto at = [&](size_t row, const std::string& column) {
    const auto found = std::find(rows[0].begin(), rows[0].end(), column);
    return found == rows[0].end() ? "no column " + column : rows[row][static_cast<size_t>(found - rows[0].begin())];
  };
  EXPECT_EQ(at(1, "job"), "softmax/cpu.tuned/f32/rows:64");
  EXPECT_EQ(at(1, "median_s"), "0.001");
  EXPECT_EQ(at(1, "byte_per_s"), "1e+09");
  EXPECT_EQ(at(1, "roof_fraction"), "0.8");
  EXPECT_EQ(at(1, "comparable"), "yes");
  EXPECT_EQ(at(1, "why"), "a published shape");
  EXPECT_EQ(at(1, "isa"), "avx2");
  EXPECT_EQ(at(2, "roof_fraction"), "");
  EXPECT_EQ(at(2, "threads"), "1");
  EXPECT_EQ(at(5, "scope"), "end_to_end");
  EXPECT_EQ(at(6, "comparable"), "no");
  EXPECT_NE(at(6, "reason").find("120 % of its roof"), std::string::npos);
  EXPECT_EQ(at(7, "status"), "failed");
  EXPECT_EQ(at(7, "reason"), "a, \"b\"\nc");
  EXPECT_EQ(at(7, "repro"), "duet op relu --check");
  EXPECT_EQ(at(7, "flops"), "1000000");
  EXPECT_EQ(at(7, "isa"), "");
}

TEST(ReportsReport, CsvHasCountersOnTheLineOfTheirSeries) {
  results::Run run = full_run();
  run.jobs[1].series.push_back(make_series(Scope::call, 3e-5, 0.4, 1, results::Cache::cold));
  for (Job* job : {&run.jobs[0], &run.jobs[1]}) {  // whose series differ in threads; in scope, and in cache
    results::Counters& counters = job->counters.emplace();
    const Series& counted = job->series[1];
    counters.scope = counted.scope;
    counters.cache = counted.cache;
    counters.threads = counted.threads;
    counters.window = results::CounterWindow{.applications = 2000, .time_s = 2.5, .foreign_cores = 0};
    counters.readings = {
        {.quantity = results::Quantity::bytes, .value = 1.5e6, .source = "invented", .unavailable_reason = ""},
        {.quantity = results::Quantity::gpu_energy_j, .value = {}, .source = "", .unavailable_reason = "no"},
        {.quantity = results::Quantity::dram_energy_j, .value = 0.5, .source = "invented", .unavailable_reason = ""},
        {.quantity = results::Quantity::cpu_energy_j, .value = 0.25, .source = "invented", .unavailable_reason = ""}};
  }
  const auto rows = parse_csv(Written(run).csv);
  for (const auto& [column, value] : {std::pair("counted_applications", "2000"),
                                      {"counter_window_s", "2.5"},
                                      {"counted_instructions", ""},
                                      {"counted_bytes", "1500000"},
                                      {"counted_cpu_energy_j", "0.25"},
                                      {"counted_dram_energy_j", "0.5"},
                                      {"counted_gpu_energy_j", ""}}) {
    const auto found = std::find(rows[0].begin(), rows[0].end(), column);
    ASSERT_NE(found, rows[0].end()) << column;
    const auto at = static_cast<size_t>(found - rows[0].begin());
    for (size_t row = 1; row < rows.size(); ++row)
      EXPECT_EQ(rows[row][at], row == 2 || row == 4 ? value : "") << column << row;
  }
}

TEST(ReportsReport, CsvHoldsNoFormulaAndNoControlCharacter) {
  results::Run run = full_run();
  const std::vector<std::string> names = {"=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx"};
  for (size_t i = 0; i < names.size(); ++i) run.jobs[i].why = names[i] + "\x01\x1b";
  const auto rows = parse_csv(Written(run).csv);
  size_t found = 0;
  for (const auto& row : rows)
    for (const std::string& field : row) {
      EXPECT_EQ(field.find_first_of("\x01\x1b"), std::string::npos);
      for (const std::string& name : names) {
        EXPECT_FALSE(field.starts_with(name)) << field;
        found += field.starts_with("'" + name);
      }
    }
  EXPECT_EQ(found, 8u) << "the first job has two series, the second three";
}

TEST(ReportsReport, TheSummaryStaysSmall) {
  std::vector<Job> jobs;
  const std::string words(300, 'w');
  for (int i = 0; i < 300; ++i) {
    const std::string end = "/f32/n:" + std::to_string(i) + words;
    jobs.push_back(make_job("relu/cpu.tuned" + end, {make_series(Scope::call, 1e-3, 0.8, 4)}));
    jobs.push_back(make_job("relu/cuda.tuned" + end, {make_series(Scope::call, i < 150 ? 1e-4 : 1e-2, 0.8)}));
    jobs.back().family = jobs[jobs.size() - 2].family = "family" + std::to_string(i);
    jobs.push_back(make_missing("gelu/cuda.tuned" + end, Status::failed, "reason " + std::to_string(i) + words));
    jobs.back().repro = "duet op gelu --seed " + std::to_string(i);
    jobs.push_back(make_step("step/" + std::to_string(i) + "/cpu/f32/batch:8", 0.9, {{"gemm", 0.5}}));
  }
  const Written report(make_run(std::move(jobs)));
  const std::string summary = read(report.scratch / "out/summary.md");
  EXPECT_LT(summary.size(), 60000u);
  EXPECT_TRUE(summary.starts_with("# CPU and GPU each win 150 of 300 cases") ||
              summary.starts_with("# The GPU wins 150 of 300 cases, the CPU 150"))
      << summary.substr(0, 200);
  EXPECT_NE(summary.find("duet op gelu --seed 0"), std::string::npos);
  EXPECT_NE(summary.find("CPU 10.0× faster"), std::string::npos);
  EXPECT_EQ(summary.find(".svg"), std::string::npos) << "a comment has no files beside it";
}

TEST(ReportsReport, AFailedJobShowsTheCommandThatRepeatsIt) {
  results::Run run = full_run();
  run.jobs[3].repro = "duet op relu --check";
  const Written report(run);
  EXPECT_NE(report.html.find("<code>duet op relu --check</code>"), std::string::npos);
  EXPECT_NE(report.markdown.find("`duet op relu --check`"), std::string::npos);
}

TEST(ReportsReport, RowsSayWhyTheirShapeIsMeasuredAndStandUnderItsSource) {
  results::Run run = make_run(softmax_pair());
  for (Job& job : run.jobs) job.why = "ResNet-50 head, batch 256";
  const std::string html = Written(run).html;
  EXPECT_NE(html.find("<span><b>ResNet-50</b>"), std::string::npos);
  EXPECT_NE(html.find("<i>head, batch 256</i>"), std::string::npos);
  EXPECT_EQ(source_of("DeepBench 1760, batch 16"), "DeepBench");
  EXPECT_EQ(source_of("ResNet-50's head"), "ResNet-50");
  EXPECT_EQ(source_of("GPT-2"), "GPT-2");
  EXPECT_EQ(source_of("4 KiB in f32"), "");
  EXPECT_EQ(source_of("a published shape"), "");
  EXPECT_EQ(source_of("A shape"), "");
  EXPECT_EQ(source_of(""), "");
}

TEST(ReportsReport, ColumnsThatSayNothingAreLeftOut) {
  Table table{.caption = {},
              .columns = {{"a"}, {"b"}, {"c"}},
              .rows = {{cell("1"), cell("–"), cell("x")}, {cell("2"), cell(""), cell("x")}}};
  drop_empty_columns(table);
  ASSERT_EQ(table.columns.size(), 2u);
  EXPECT_EQ(table.columns[1].title, "c");
  state_constant_columns(table, {"a", "c"});
  ASSERT_EQ(table.columns.size(), 1u);
  EXPECT_EQ(table.rows[1].size(), 1u);
  EXPECT_EQ(table.caption[0].text, "In every row c: x.");
}

TEST(ReportsReport, ConsoleShowsSpeedupsOrCpuTimes) {
  const std::string both = console_table(full_run());
  EXPECT_NE(both.find("50.0×"), std::string::npos) << both;
  EXPECT_NE(both.find("80 % memory"), std::string::npos);
  EXPECT_NE(both.find("4 measured, 1 skipped, 1 failed, 1 suspect\n"), std::string::npos);
  EXPECT_NE(both.find("\nfailed: relu/cuda.tuned/f32/n:8: element 3 is 0.5, expected 0.25\n"), std::string::npos);
  EXPECT_EQ(both.find("fp8 needs tn"), std::string::npos) << "skipped rows are counted alone";
  EXPECT_EQ(both.find("GPU: not measured"), std::string::npos);
  const std::string cpu = console_table(cpu_only_run());
  EXPECT_NE(cpu.find("softmax f32 rows:64"), std::string::npos) << cpu;
  EXPECT_NE(cpu.find("1.00 ms"), std::string::npos);
  EXPECT_NE(cpu.find("80 % memory"), std::string::npos);
  EXPECT_NE(cpu.find("GPU: not measured (no CUDA device)\n"), std::string::npos);
}

TEST(ReportsReport, ConsoleSaysHowManySeriesCouldBeChecked) {
  results::Run run = cpu_only_run();
  const auto state_of = [&] {
    const std::string text = console_table(run);
    const size_t at = text.find("\nstate: ") + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  run.invocation.trust = results::Trust::trustworthy;
  for (Job& job : run.jobs)
    for (results::Series& s : job.series) s.foreign_cores.reset();
  const results::ContentionChecked all = results::count_contention_checked(run.jobs);
  ASSERT_GT(all.all, 0);
  EXPECT_EQ(state_of(),
            fmt::format("state: trustworthy; 0 of {} series on the CPU could be checked for other work", all.all));
  run.jobs[0].series.at(0).foreign_cores = 0;
  EXPECT_EQ(state_of(),
            fmt::format("state: trustworthy; 1 of {} series on the CPU could be checked for other work", all.all));
  run.invocation.trust = results::Trust::disturbed;
  EXPECT_EQ(state_of(), "state: disturbed") << "its doubts have the number";
}

TEST(ReportsReport, ConsoleShowsTheSlowerOnesBesideTheFastest) {
  std::vector<Job> jobs = softmax_pair();
  const double cpu_s = results::find_series(jobs[0], Scope::call, Cache::warm, 4)->summary.median_s;
  jobs.push_back(make_job("softmax/cpu.second/f32/rows:64", {make_series(Scope::call, 3 * cpu_s, 1.01, 4)}));
  jobs.push_back(make_job("softmax/cpu.first/f32/rows:64", {make_series(Scope::call, 2 * cpu_s, 1.01, 4)}));
  jobs.push_back(make_missing("softmax/cpu.broken/f32/rows:64", Status::failed, "wrong"));
  const std::string both = console_table(make_run(jobs));
  EXPECT_NE(both.find("cpu.first 2.00×, cpu.second 3.00×\n"), std::string::npos) << both;
  std::erase_if(jobs, [](const Job& job) { return job.device == results::Device::gpu; });
  const std::string cpu = console_table(make_run(jobs));
  EXPECT_NE(cpu.find("cpu.first 2.00×, cpu.second 3.00×\n"), std::string::npos) << cpu;
}

TEST(ReportsReport, AShareOfTheRunsCeilingsSaysSo) {
  results::Run run = make_run(softmax_pair());
  EXPECT_EQ(console_table(run).find("(run)"), std::string::npos);
  run.jobs[1].series[0].roof->source = results::RoofSource::run;
  const std::string text = console_table(run);
  EXPECT_NE(text.find("90 % memory (run)"), std::string::npos) << text;
  EXPECT_NE(text.find("\n(run) by ceilings of the run"), std::string::npos) << text;
  const Written report(run);
  EXPECT_NE(report.html.find("90\u00a0%\u00a0memory\u00a0(run)"), std::string::npos);
  const auto rows = parse_csv(report.csv);
  const auto column = std::find(rows[0].begin(), rows[0].end(), "roof_source") - rows[0].begin();
  EXPECT_EQ(rows[1][static_cast<size_t>(column)], "adjacent");
  EXPECT_EQ(rows[3][static_cast<size_t>(column)], "run");
}

TEST(ReportsReport, AWeakCpuIsMarkedWhereverItsRatioStands) {
  results::Run run = make_run(softmax_pair());
  results::testing::set_fraction(run.jobs[0].series[0], 0.2);
  decide(run.jobs[0]);
  const Written report(run);
  EXPECT_NE(report.html.find("<b>50.0×</b> faster<span class=\"warn\"> *</span>"), std::string::npos);
  EXPECT_NE(read(report.scratch / "out/speedup.svg").find(">50.0×*</text>"), std::string::npos);
  EXPECT_NE(report.markdown.find("**50.0×** faster \\*"), std::string::npos);
  EXPECT_NE(console_table(run).find("50.0×*"), std::string::npos);
}

std::vector<std::string> listing(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ReportsReport, NothingIsWrittenOnAnError) {
  const Scratch scratch;
  const std::string good = scratch.write("good.json", results::run_text(full_run())),
                    bad = scratch.write("bad.json", std::string("{\"duet\": "));
  EXPECT_THROW(write_report(bad, (scratch / "new").string()), Error);
  EXPECT_FALSE(fs::exists(scratch / "new"));
  EXPECT_THROW(write_report(good, good), std::runtime_error);  // a file, not a folder
  EXPECT_THROW(write_report(good, good + "/below"), std::runtime_error);

  fs::create_directories(scratch / "old/report.html");  // in the way of the last file
  scratch.write("old/report.md", std::string("kept"));
  EXPECT_THROW(write_report(good, (scratch / "old").string()), std::runtime_error);
  EXPECT_EQ(listing(scratch / "old"), (std::vector<std::string>{"report.html", "report.md"}));
  EXPECT_EQ(read(scratch / "old/report.md"), "kept");
}

TEST(ReportsReport, ReplacesAnOlderReportAndLeavesNoTemporaryFile) {
  const Scratch scratch;
  const std::string good = scratch.write("good.json", results::run_text(make_run(softmax_pair())));
  fs::create_directories(scratch / "deep/er");
  scratch.write("deep/er/report.md", std::string("old"));
  write_report(good, (scratch / "deep/er").string());
  write_report(good, (scratch / "deep/er").string());
  EXPECT_NE(read(scratch / "deep/er/report.md"), "old");
  EXPECT_EQ(
      listing(scratch / "deep/er"),
      (std::vector<std::string>{"bandwidth.svg", "bandwidth_2.svg", "families.svg", "report.csv", "report.html",
                                "report.md", "roofline_cpu.svg", "roofline_gpu.svg", "speedup.svg", "summary.md"}));
}

TEST(ReportsReport, NumbersReadWell) {
  EXPECT_EQ(seconds(1.234e-5), "12.3 µs");
  EXPECT_EQ(seconds(0), "0 s");
  EXPECT_EQ(si(0.99996e9, "B/s"), "1.00 GB/s");
  EXPECT_EQ(si(1.5e12, "FLOP/s"), "1.50 TFLOP/s");
  EXPECT_EQ(times(0.0271), "0.027×");
  EXPECT_EQ(times(254.4), "254×");
  EXPECT_EQ(faster_text(0.0046), "CPU 217× faster");
  EXPECT_EQ(faster_text(18.4), "18.4× faster");
  using Limits = std::numeric_limits<double>;
  for (const double value : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    EXPECT_EQ(significant(value), "–");
    EXPECT_EQ(seconds(value), "–");
    EXPECT_EQ(share(value), "–");
    EXPECT_EQ(times(value), "–");
  }
  EXPECT_EQ(slug("Scopes and terms"), "scopes-and-terms");
  EXPECT_EQ(share(0.004), "0.40 %");
  EXPECT_EQ(share(0.876), "88 %");
  EXPECT_EQ(bytes_text(3 << 20), "3.00 MiB");
  EXPECT_EQ(elided("abcdefghij", 5), "abc…j");
  EXPECT_EQ(width_of("µ×…"), 3u);
}

}  // namespace
}  // namespace duet::reports
