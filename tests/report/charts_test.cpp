// SPDX-License-Identifier: Apache-2.0
// Where marks and texts of charts stand: within a narrow page, losing cases among them, and no more than a page can
// hold.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "reports/analysis.h"
#include "reports/charts.h"
#include "reports/format.h"
#include "reports/svg.h"
#include "tests/example/example_run.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::testing::count_in;
using results::testing::make_job;
using results::testing::make_run;
using results::testing::make_series;
using results::testing::make_step;

// The GPU's call takes `ratio`-th of the CPU's.
std::vector<Job> pair_of(const std::string& op, const std::string& family, int n, double ratio) {
  const std::string end = "/f32/n:" + std::to_string(n);
  std::vector<Job> jobs = {make_job(op + "/cpu.tuned" + end, {make_series(Scope::call, 1e-3, 0.8, 4)}),
                           make_job(op + "/cuda.tuned" + end, {make_series(Scope::call, 1e-3 / ratio, 0.8)})};
  for (Job& job : jobs) job.family = family;
  return jobs;
}

struct Charted {
  explicit Charted(results::Run given) : run(std::move(given)), analysis(analyse(run)) {}
  Charted(const Charted&) = delete;
  std::vector<Chart> all() const {
    std::vector<Chart> charts;
    for (auto& chart : {family_chart(analysis), bandwidth_family_chart(analysis)})
      if (chart) charts.push_back(*chart);
    for (const auto& groups : {speedup_charts(analysis, 40), bandwidth_charts(analysis, 40)})
      for (const CaseCharts& group : groups) charts.insert(charts.end(), group.charts.begin(), group.charts.end());
    for (const Roofline& roofline : analysis.rooflines) charts.push_back(roofline_chart(roofline));
    for (const BreakEvenRow& row : analysis.break_evens) charts.push_back(break_even_chart(row, charts.size()));
    for (Chart& chart : step_charts(analysis.steps, 40)) charts.push_back(std::move(chart));
    return charts;
  }
  results::Run run;
  Analysis analysis;
};

// The texts of a chart with their left and right ends in pixels, drawn `page` pixels wide.
struct Placed {
  std::string text;
  double left, right, y;
};
std::vector<Placed> texts_of(const Chart& chart, double page) {
  static const std::regex kText(R"re(<text x="([-0-9.]+)(%?)" y="([-0-9.]+)"(?: dx="([-0-9.]+)")?)re"
                                R"re((?: text-anchor="(\w+)")?[^>]*>([^<]*)</text>)re");
  std::vector<Placed> texts;
  for (std::sregex_iterator at(chart.marks.begin(), chart.marks.end(), kText), end; at != end; ++at) {
    const std::smatch& m = *at;
    const double width = 6.0 * static_cast<double>(width_of(m[6]));
    double x = std::stod(m[1]) * (m[2].length() ? page / 100 : 1);
    if (m[4].matched) x += std::stod(m[4]);
    const double left = m[5] == "end" ? x - width : m[5] == "middle" ? x - width / 2 : x;
    texts.push_back({m[6], left, left + width, std::stod(m[3])});
  }
  return texts;
}

TEST(ReportsCharts, TextsStayInsideANarrowPage) {
  const Charted charted(results::testing::example_run({.hostile = false}));
  size_t seen = 0;
  for (const Chart& chart : charted.all())
    for (const double page : {kNarrow, 1100.0})
      for (const Placed& text : texts_of(chart, page)) {
        EXPECT_GE(text.left, -10) << chart.stem << ": " << text.text;
        EXPECT_LE(text.right, page + 12) << chart.stem << ": " << text.text;
        EXPECT_LE(text.y, chart.height) << chart.stem << ": " << text.text;
        ++seen;
      }
  EXPECT_GT(seen, 1000u);
}

TEST(ReportsCharts, MarksStayOnThePage) {
  static const std::regex kPercent(R"re( (?:x|x1|x2|cx|width)="([-0-9.]+)%")re");
  const Charted charted(results::testing::example_run({.hostile = false}));
  for (const Chart& chart : charted.all()) {
    EXPECT_EQ(chart.marks.find("nan"), std::string::npos) << chart.stem;
    for (std::sregex_iterator at(chart.marks.begin(), chart.marks.end(), kPercent), end; at != end; ++at) {
      EXPECT_GE(std::stod((*at)[1]), 0) << chart.stem;
      EXPECT_LE(std::stod((*at)[1]), 100) << chart.stem;
    }
  }
}

TEST(ReportsCharts, AFamilyStandsAtItsMedianWithItsLosingCasesInSight) {
  std::vector<Job> jobs;
  for (const double ratio : {0.01, 4.0, 10.0})
    for (Job& job : pair_of("relu", "elementwise", static_cast<int>(100 * ratio), ratio)) jobs.push_back(job);
  for (Job& job : pair_of("softmax", "norm", 1, 0.5)) jobs.push_back(job);
  const Charted charted(make_run(std::move(jobs)));
  const Chart chart = family_chart(charted.analysis).value();
  EXPECT_EQ(count_in(chart.marks, "<circle"), 4u) << "a dot for each case";
  EXPECT_EQ(count_in(chart.marks, "r=\"2.5\" class=\"f-cpu\""), 2u) << "those that the GPU loses";
  EXPECT_NE(chart.marks.find(">GPU 4.00×, GPU ahead in 2 of 3<"), std::string::npos) << chart.marks;
  EXPECT_NE(chart.marks.find(">CPU 2.00×, in the only case<"), std::string::npos) << chart.marks;
  EXPECT_LT(chart.marks.find(">elementwise<"), chart.marks.find(">norm<")) << "ranked by median";
  EXPECT_NE(chart.marks.find(">1×<"), std::string::npos) << "bars start at a labelled line";

  const std::vector<CaseCharts> groups = speedup_charts(charted.analysis, 40);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].summary, "elementwise: 3 cases, median GPU 4.00× by call");
  EXPECT_NE(groups[0].charts.at(0).marks.find("call: CPU 100×"), std::string::npos) << "no ratio below 1 is printed";
}

TEST(ReportsCharts, OfVeryManyCasesTheBestAndTheWorstAreDrawn) {
  std::vector<Job> jobs;
  for (int i = 1; i <= 1000; ++i)
    for (Job& job : pair_of("relu", "elementwise", i, 0.1 * i)) jobs.push_back(job);
  const Charted charted(make_run(std::move(jobs)));
  const std::vector<CaseCharts> groups = speedup_charts(charted.analysis, 100);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].summary,
            "elementwise: 1000 cases, median GPU 50.0× by call; 600 between the best and the worst are in the table "
            "alone");
  ASSERT_EQ(groups[0].charts.size(), 4u);
  EXPECT_NE(groups[0].charts.front().marks.find("n:1000<"), std::string::npos);
  EXPECT_NE(groups[0].charts.back().marks.find("n:1<"), std::string::npos);
  EXPECT_LT(family_chart(charted.analysis)->marks.size(), 30'000u);
}

TEST(ReportsCharts, WhatIsInACacheIsNotReadAgainstTheSlopeOfMemory) {
  std::vector<Job> jobs;
  for (const auto& [n, footprint] : {std::pair(1, int64_t{1} << 16), std::pair(2, int64_t{1} << 30)}) {
    jobs.push_back(make_job("relu/cpu.tuned/f32/n:" + std::to_string(n), {make_series(Scope::call, 1e-3, 0.8, 4)}));
    jobs.back().footprint_bytes = footprint;
  }
  results::Run run = make_run(std::move(jobs));
  run.ceilings.clear();
  for (const auto& [footprint, value] : {std::pair(int64_t{1} << 18, 900e9), std::pair(int64_t{1} << 30, 100e9)}) {
    Ceiling ceiling{};
    ceiling.name = "cpu.copy";
    ceiling.device = "cpu";
    ceiling.threads = 4;
    ceiling.footprint_bytes = footprint;
    ceiling.value = value;
    ceiling.unit = "B/s";
    run.ceilings.push_back(ceiling);
  }
  const Charted charted(std::move(run));
  ASSERT_EQ(charted.analysis.rooflines.size(), 1u);
  const Roofline& roofline = charted.analysis.rooflines[0];
  ASSERT_TRUE(roofline.cache_bandwidth);
  EXPECT_EQ(roofline.bandwidth->value, 100e9);
  EXPECT_EQ(roofline.cache_bandwidth->value, 900e9);
  ASSERT_EQ(roofline.points.size(), 2u);
  EXPECT_TRUE(roofline.points[0].cached);
  EXPECT_FALSE(roofline.points[1].cached);
  const Chart chart = roofline_chart(roofline);
  EXPECT_EQ(count_in(chart.marks, "class=\"mark hollow l-cpu\"><title>"), 1u) << chart.marks;
  EXPECT_NE(chart.marks.find("in cache up to 900 GB/s"), std::string::npos);
}

}  // namespace
}  // namespace duet::reports
