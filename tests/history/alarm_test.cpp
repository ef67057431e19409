// SPDX-License-Identifier: Apache-2.0
// What is slower: the robust z, the confirming run, new normals and bad runs; and where a series changed its level.
#include "reports/history/alarm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "reports/history/change_points.h"
#include "reports/history/trend.h"
#include "tests/history/generator.h"

namespace duet::history {
namespace {

using testing::Generated;
using testing::Scratch;

TEST(RobustZ, IsTheDistanceInSpreads) {
  // Logarithms 0 +- 0.01 ... : median 0, median absolute deviation 0.01.
  std::vector<double> times_s;
  for (int i = 0; i < 7; ++i)
    for (const double log : {-0.01, 0.0, 0.01, 0.02, -0.02}) times_s.push_back(std::exp(log));
  const auto score = robust_z(times_s, std::exp(0.1));
  ASSERT_TRUE(score);
  EXPECT_NEAR(score->median_s, 1, 1e-12);
  EXPECT_NEAR(score->spread, 0.014826, 1e-9);
  EXPECT_NEAR(score->z, 0.1 / 0.014826, 1e-6);
  EXPECT_NEAR(score->change, std::expm1(0.1), 1e-12);
  EXPECT_TRUE(score->slower());
  EXPECT_TRUE(robust_z(times_s, std::exp(-0.1))->faster());
  EXPECT_FALSE(robust_z(times_s, 1.04)->slower()) << "under 5 %";
  EXPECT_FALSE(robust_z(times_s, 1.06)->slower()) << "z under 4";
}

TEST(RobustZ, NeedsTwentyRunsAndTakesTheLastFifty) {
  std::vector<double> times_s(19, 1.0);
  EXPECT_FALSE(robust_z(times_s, 1));
  times_s.push_back(1.0);
  ASSERT_TRUE(robust_z(times_s, 2));
  EXPECT_TRUE(robust_z(times_s, 2)->slower()) << "equal times have the smallest spread, not none";
  times_s.assign(100, 5.0);
  times_s.insert(times_s.end(), 50, 1.0);
  EXPECT_NEAR(robust_z(times_s, 1)->median_s, 1, 1e-12);
  EXPECT_EQ(robust_z(times_s, 1)->runs, 50U);
}

TEST(RobustZ, StaysFiniteForAnyTime) {
  const std::vector<double> times_s(30, 1e-299);
  const auto score = robust_z(times_s, 1e299);
  EXPECT_TRUE(std::isfinite(score->z) && std::isfinite(score->change) && score->slower());
}

TEST(Alarm, LooksAtRunsWithTheSameSettingsOnly) {
  const Scratch scratch;
  History history((scratch / "h.sqlite").string(), Access::create);
  Generated quick, full;
  full.scale = "full";
  full.factor = [](int64_t, int64_t) { return 1.5; };
  quick.fill(history, 0, 40);
  full.fill(history, 40, 41);
  const auto latest = [&] { return verdicts_of(history, history.find("latest")); };
  for (const Verdict& verdict : latest()) EXPECT_EQ(verdict.status, Status::too_short) << verdict.key;
  full.fill(history, 41, 70);
  for (const Verdict& verdict : latest()) EXPECT_EQ(verdict.status, Status::same) << verdict.key;
  quick.fill(history, 70, 71);
  for (const Verdict& verdict : latest()) EXPECT_EQ(verdict.status, Status::same) << "quick runs before the full ones";
  for (const MachineTrend& trend : make_trend(history, {}))
    for (const SeriesTrend& series : trend.series) EXPECT_TRUE(series.level_changes.empty()) << series.history.info.key;
}

// A history of 40 runs, and one of commit 40 that has one of four series 20 % slower.
struct Slowed {
  Slowed() : history((scratch / "h.sqlite").string(), Access::create) {
    made.factor = [](int64_t run, int64_t at) { return run == 40 && at == 2 ? 1.2 : 1.0; };
    made.fill(history, 0, 41);
  }
  // Repeats run 40 with that series `factor` times as long.
  void confirm(double factor, const std::string& id = "again") {
    Generated again = made;
    again.seed = 7;
    again.factor = [=](int64_t, int64_t at) { return at == 2 ? factor : 1.0; };
    Conversion run = again.run(40);
    run.record.info.confirms = run.record.info.name;
    run.record.info.name.id = id;
    run.record.info.reason = "confirm";
    history.add(run);
  }
  std::vector<Status> statuses(const std::string& run = "r000040") const {
    std::vector<Status> found;
    for (const Verdict& verdict : verdicts_of(history, history.find(run))) found.push_back(verdict.status);
    return found;
  }
  Scratch scratch;
  Generated made;
  History history;
};
using Statuses = std::vector<Status>;

TEST(Alarm, WaitsForAConfirmingRun) {
  Slowed slowed;
  EXPECT_EQ(slowed.statuses(), (Statuses{Status::same, Status::same, Status::slower_unconfirmed, Status::same}));
  slowed.confirm(1.2);
  EXPECT_EQ(slowed.statuses(), (Statuses{Status::same, Status::same, Status::slower, Status::same}));
}

TEST(Alarm, IsClearedByAConfirmingRunOfUsualSpeed) {
  Slowed slowed;
  slowed.confirm(1);
  EXPECT_EQ(slowed.statuses(), (Statuses{Status::same, Status::same, Status::cleared, Status::same}));
}

TEST(Alarm, ConfirmingAndPrRunsEnterNoBaseline) {
  Slowed slowed;
  for (int i = 0; i < 60; ++i) slowed.confirm(1.2, "again" + std::to_string(i));
  Generated pr = slowed.made;
  pr.factor = [](int64_t, int64_t) { return 3.0; };
  for (int64_t number = 50; number < 110; ++number) {
    Conversion run = pr.run(number);
    run.record.info.reason = "pr";
    slowed.history.add(run);
  }
  slowed.made.fill(slowed.history, 200, 201);
  EXPECT_EQ(slowed.statuses("r000200"), Statuses(4, Status::same));
  EXPECT_EQ(slowed.history.window("f1", 1000).runs.size(), 42U);
}

TEST(Alarm, APrRunIsComparedWithTheBaseline) {
  Slowed slowed;
  Generated pr = slowed.made;
  pr.factor = [](int64_t, int64_t at) { return at == 0 ? 1.3 : 1.0; };
  Conversion run = pr.run(50);
  run.record.info.reason = "pr";
  slowed.history.add(run);
  EXPECT_EQ(slowed.statuses("r000050"),
            (Statuses{Status::slower_unconfirmed, Status::same, Status::same, Status::same}));
}

TEST(Alarm, ARunThatIsNotValidIsInNoBaselineAndIsKept) {
  Slowed slowed;
  Generated bad = slowed.made;
  bad.factor = [](int64_t, int64_t) { return 0.5; };
  bad.fill(slowed.history, 41, 91);  // fifty runs at twice the speed: the baseline
  slowed.made.fill(slowed.history, 100, 101);
  EXPECT_EQ(slowed.statuses("r000100"), Statuses(4, Status::slower_unconfirmed));
  for (int64_t number = 41; number < 91; ++number)
    slowed.history.set_valid(slowed.history.find(fmt::format("r{:06}", number)).number, false, "wrong clock");
  EXPECT_EQ(slowed.statuses("r000100"), Statuses(4, Status::same));
  EXPECT_EQ(slowed.history.find("r000041").info.note, "wrong clock");
  EXPECT_EQ(slowed.history.runs(1000).size(), 92U);
}

TEST(Alarm, ANewNormalEndsTheBaseline) {
  Slowed slowed;
  Generated after = slowed.made;
  after.factor = [](int64_t, int64_t at) { return at == 2 ? 1.2 : 1.0; };
  after.fill(slowed.history, 41, 60);
  EXPECT_EQ(slowed.statuses("r000059")[2], Status::slower_unconfirmed);
  slowed.history.mark(slowed.history.find("r000040").number, {slowed.made.key(2)}, "wanted");
  EXPECT_EQ(slowed.statuses("r000059"), (Statuses{Status::same, Status::same, Status::too_short, Status::same}));
  after.fill(slowed.history, 60, 61);  // the 20 runs since the mark are enough
  EXPECT_EQ(slowed.statuses("r000060"), Statuses(4, Status::same));
}

// --- change points

std::vector<double> series(size_t count, double noise, uint64_t seed, const std::function<double(size_t)>& level) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> times_s;
  for (size_t i = 0; i < count; ++i) times_s.push_back(level(i) * std::exp(noise * normal(random)));
  return times_s;
}

TEST(TTest, HasItsTabulatedValues) {
  // t = 2.228 with 10 degrees of freedom and t = 12.706 with 1 are the two-sided 5 % points.
  const std::vector<double> x = {1, 2, 3, 4, 5, 6};
  std::vector<double> y;
  const double shift = 2.2281388 * std::sqrt(3.5 * 2 / 6);  // variance of x: 3.5
  for (const double value : x) y.push_back(value + shift);
  EXPECT_NEAR(t_test_p(x, y), 0.05, 1e-6);
  // With 3 degrees of freedom the distribution has a closed form.
  const double t = (16.0 / 3 - 1.5) / std::sqrt((0.5 + 14.0 / 3) / 3 * (1.0 / 2 + 1.0 / 3)), u = t / std::sqrt(3.0);
  EXPECT_NEAR(t_test_p(std::vector<double>{1, 2}, std::vector<double>{4, 5, 7}),
              1 - 2 / M_PI * (std::atan(u) + u / (1 + u * u)), 1e-12);
  EXPECT_EQ(t_test_p(x, x), 1);
}

TEST(ChangePoints, FindsAStepWhereItIs) {
  const auto found = change_points(series(60, 0.01, 3, [](size_t i) { return i < 40 ? 1.0 : 1.1; }));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].first, 40U);
  EXPECT_NEAR(found[0].change, 0.1, 0.015);
  EXPECT_LT(found[0].p, 1e-6);
}

TEST(ChangePoints, FindsABumpWhoseMeanIsThatOfTheRest) {
  const auto found = change_points(series(90, 0.01, 4, [](size_t i) {
    return i >= 30 && i < 45 ? 1.1 : i >= 45 && i < 60 ? 0.9 : 1.0;
  }));
  std::vector<size_t> places;
  for (const ChangePoint& change : found) places.push_back(change.first);
  EXPECT_EQ(places, (std::vector<size_t>{30, 45, 60}));
}

TEST(ChangePoints, NeedsTenTimesAndThreeAfterTheChange) {
  const auto step = [](size_t last) { return [=](size_t i) { return i < last ? 1.0 : 1.3; }; };
  EXPECT_TRUE(change_points(series(9, 0.005, 5, step(4))).empty());
  EXPECT_EQ(change_points(series(10, 0.005, 5, step(5))).size(), 1U);
  EXPECT_TRUE(change_points(series(40, 0.005, 5, step(38))).empty());
  EXPECT_EQ(change_points(series(40, 0.005, 5, step(37))).size(), 1U);
}

TEST(ChangePoints, OneFarOutlierAmongTheLastThreeIsNoChange) {
  for (const size_t at : {size_t{37}, size_t{38}, size_t{39}, size_t{20}}) {
    auto times_s = series(40, 0.01, 6, [](size_t) { return 1.0; });
    times_s[at] = 1.5;
    EXPECT_TRUE(change_points(times_s).empty()) << at;
  }
}

// The rates that the documentation states.
TEST(ChangePoints, SeldomSeesChangesInNoise) {
  int false_alarms = 0, found = 0;
  constexpr int kSeries = 200;
  for (uint64_t seed = 0; seed < kSeries; ++seed) {
    const double noise = seed % 2 ? 0.01 : 0.03;
    false_alarms += change_points(series(100, noise, 100 + seed, [](size_t) { return 1.0; })).empty() ? 0 : 1;
    const auto steps = change_points(series(100, noise, 900 + seed, [](size_t i) { return i < 80 ? 1.0 : 1.1; }));
    found += std::any_of(steps.begin(), steps.end(), [](const ChangePoint& c) { return c.first > 77 && c.first < 83; });
  }
  RecordProperty("false_alarms", false_alarms);
  RecordProperty("found", found);
  EXPECT_LE(false_alarms, 2) << "of " << kSeries;
  EXPECT_GE(found, kSeries * 97 / 100) << "of " << kSeries;
}

// Single runs: 1 % of noise and one far outlier in a hundred, 50 runs before each.
TEST(Alarm, SeldomComesFromNoise) {
  int once = 0, twice = 0;
  constexpr int kTries = 4000;
  for (uint64_t seed = 0; seed < kTries; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const auto draw = [&] { return std::exp(0.02 * normal(random)) * (uniform(random) < 0.01 ? 1.5 : 1.0); };
    std::vector<double> times_s(50);
    for (double& time_s : times_s) time_s = draw();
    const bool first = robust_z(times_s, draw())->slower(), second = robust_z(times_s, draw())->slower();
    once += first;
    twice += first && second;
  }
  RecordProperty("once", once);
  RecordProperty("twice", twice);
  EXPECT_LT(once, kTries * 2 / 100);
  EXPECT_LE(twice, 2);
}

}  // namespace
}  // namespace duet::history
