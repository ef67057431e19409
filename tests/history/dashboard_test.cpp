// SPDX-License-Identifier: Apache-2.0
// The answer in words, and the page.
#include "reports/history/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/render.h"
#include "tests/history/generator.h"

namespace duet::history {
namespace {

using results::testing::count_in;
using ::testing::AllOf;
using testing::Generated;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Scratch;

struct Fixture {
  Fixture() : history((scratch / "h.sqlite").string(), Access::create) {}
  std::vector<MachineTrend> trend(const TrendOptions& options = {}) const { return make_trend(history, options); }
  std::string page() const { return render_html(make_dashboard(trend(), "h.sqlite")); }
  Scratch scratch;
  Generated made;
  History history;
};

TEST(Trend, SaysThatNothingChanged) {
  Fixture f;
  f.made.fill(f.history, 0, 40);
  EXPECT_EQ(
      answer(f.trend()[0]),
      "Latest: run 40 of 2020-01-01 (0000000). Nothing is slower or faster: 4 series are within the spread of the "
      "runs before.");
}

TEST(Trend, SaysWhatIsSlowerFasterAndMoved) {
  Fixture f;
  f.made.factor = [](int64_t run, int64_t at) {
    return (at == 1 && run == 79 ? 1.5 : 1.0) * (at == 2 && run == 79 ? 0.7 : 1.0) * (at == 3 && run >= 70 ? 1.2 : 1.0);
  };
  f.made.fill(f.history, 0, 80);
  const std::vector<MachineTrend> trends = f.trend();
  const std::string text = answer(trends[0]);
  EXPECT_THAT(text, HasSubstr("2 series are slower than before and not confirmed by a second run (" + f.made.key(1)));
  EXPECT_THAT(text, HasSubstr("1 series is faster than before (" + f.made.key(2)));
  EXPECT_THAT(text, HasSubstr("1 series moved to another level and stayed there; the newest is " + f.made.key(3)));
  EXPECT_THAT(text, HasSubstr("since run 71 of"));
  EXPECT_THAT(text,
              HasSubstr("something changed once; last at run 61 of 2020-01-02 (0000000): gpu.driver: 580, was 575."));
  const reports::Table table = changes_table(trends[0], 99, false);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0][0].text[0].text, f.made.key(1)) << "the largest alarm comes first";
}

TEST(Trend, AMarkEndsAChangeOfLevel) {
  Fixture f;
  f.made.factor = [](int64_t run, int64_t at) { return at == 3 && run >= 40 ? 1.2 : 1.0; };
  f.made.fill(f.history, 0, 80);
  EXPECT_THAT(answer(f.trend()[0]), HasSubstr("moved to another level"));
  f.history.mark(41, {f.made.key(3)}, "wanted");
  EXPECT_THAT(answer(f.trend()[0]), Not(HasSubstr("moved to another level")));
  EXPECT_THAT(f.page(), HasSubstr("new normal: wanted"));
}

TEST(Trend, SaysThatAlarmsNeedMoreRuns) {
  Fixture f;
  f.made.fill(f.history, 0, 3);
  EXPECT_THAT(answer(f.trend()[0]), HasSubstr("No alarm is possible yet: a series needs 20 runs"));
}

TEST(Trend, NamesFailuresAndWhatIsMissing) {
  Fixture f;
  f.made.fill(f.history, 0, 30);
  Conversion last = f.made.run(30);
  last.record.measurements.pop_back();
  last.record.failures = {{"op3/cpu.tuned/f32/n:3", "wrong"}};
  f.history.add(last);
  EXPECT_THAT(answer(f.trend()[0]),
              AllOf(HasSubstr("1 job without a result in the latest run (op3/cpu.tuned/f32/n:3: wrong)"),
                    HasSubstr("lacks 1 series that the run before it had")));
}

TEST(Trend, TakesTheLastRunsTheSeriesAndTheMachineThatAreAskedFor) {
  Fixture f;
  f.made.fill(f.history, 0, 30);
  TrendOptions options{
      .last = 5, .machine = "f", .wanted = [&](const SeriesInfo& s) { return s.key == f.made.key(2); }};
  const auto trends = f.trend(options);
  ASSERT_EQ(trends.size(), 1U);
  EXPECT_EQ(trends[0].window.runs.size(), 5U);
  ASSERT_EQ(trends[0].series.size(), 1U);
  EXPECT_EQ(trends[0].series[0].history.points.size(), 5U);
  EXPECT_EQ(trends[0].series[0].verdict->score->runs, 29U) << "alarms look further back than the page";
  options.machine = "g";
  EXPECT_TRUE(f.trend(options).empty());
}

TEST(Dashboard, DrawsEverySeriesAndSaysTheAnswerFirst) {
  Fixture f;
  f.made.cases = 10;
  f.made.factor = [](int64_t run, int64_t at) { return at == 1 && run == 79 ? 1.5 : 1.0; };
  f.made.fill(f.history, 0, 80);
  const std::string page = f.page();
  EXPECT_EQ(count_in(page, "<figure>"), 1U + 5U + 10U);  // changed, families, series
  EXPECT_LT(page.find("1 series is slower than before"), page.find("<svg "));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_EQ(count_in(page, "<script"), 1U) << "the page's own, which sorts tables";
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, HasSubstr("gpu.driver: 580, was 575"));
}

TEST(Dashboard, EscapesHostileNames) {
  Fixture f;
  const std::string hostile = "\"><script>alert('x')</script>&amp;\x01";
  Conversion run = f.made.run(0);
  run.machine.facts = {{"cpu", hostile}};
  run.record.info.branch = run.record.info.note = run.record.info.name.id = hostile;
  run.record.info.environment = {{hostile, hostile}};
  run.series[0].key = run.series[0].case_name = run.series[0].family = run.series[0].impl = hostile;
  run.record.measurements[0].key = hostile;
  run.record.failures = {{hostile, hostile}};
  std::sort(run.record.measurements.begin(), run.record.measurements.end(),
            [](const Measurement& a, const Measurement& b) { return a.key < b.key; });
  f.history.add(run);
  const std::string page = f.page();
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert"));
  EXPECT_THAT(page, Not(HasSubstr("\x01")));
}

TEST(Dashboard, DrawsAnyPositiveTime) {
  Fixture f;
  f.made.factor = [](int64_t run, int64_t at) { return at == 0 ? (run % 2 ? 1e-250 : 1e250) : 1.0; };
  f.made.fill(f.history, 0, 40);
  const std::string page = f.page();
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf ")));
}

TEST(Dashboard, ThinsLongCurvesAndKeepsTheirExtremes) {
  Fixture f;
  f.made.cases = 1;
  f.made.factor = [](int64_t run, int64_t) { return run == 777 ? 2.0 : 1.0; };
  f.made.fill(f.history, 0, 900);
  const std::string page = render_html(make_dashboard(f.trend({.last = 900, .machine = "", .wanted = {}}), "h"));
  const size_t curve = page.find("<path d=\"", page.find("<details>"));
  const std::string path = page.substr(curve, page.find("class", curve) - curve);
  EXPECT_LE(count_in(path, "L"), 300U);
  EXPECT_THAT(path, HasSubstr(",0.0L")) << "the top of the plot";
}

}  // namespace
}  // namespace duet::history
