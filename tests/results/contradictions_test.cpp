// SPDX-License-Identifier: Apache-2.0
// Each contradiction, planted in what has none.
#include "results/contradictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/results/fixture.h"

namespace duet::results::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class T>
std::string shown(const T& value) {
  const auto found = contradiction(value);
  return found ? found->member + ": " + found->problem : "none";
}
template <class Fault>
std::string contradiction_after(const Fault& plant) {
  Job job = make_step("step/mlp/cpu/f32/batch:8", 1, {{"gemm", 0.5}, {"norm", 0.2}});
  EXPECT_EQ(shown(job), "none");
  plant(job);
  return shown(job);
}

TEST(Contradictions, JobsThatContradictThemselves) {
  EXPECT_THAT(contradiction_after([](Job& j) { j.series.clear(); }),
              HasSubstr("series: a job that is ok has at least"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.status = Status::failed; }), HasSubstr("series: a failed job has no"));
  EXPECT_THAT(contradiction_after([](Job& j) {
                j.status = Status::skipped;
                j.series.clear();
              }),
              HasSubstr("step: a skipped job has no step"));
  EXPECT_THAT(contradiction_after([](Job& j) {
                j.status = Status::skipped;
                j.series.clear();
                j.step.reset();
              }),
              HasSubstr("comparable: true, but the status is skipped"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.comparable = false; }), HasSubstr("reason: a job that is not"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.trust = Trust::unusable; }),
              HasSubstr("trust: \"unusable for ratios\", but comparable is true"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.reason = "so"; }),
              HasSubstr("comparable: true, but reason says \"so\""));
  EXPECT_THAT(contradiction_after([](Job& j) { j.check.reset(); }), HasSubstr("comparable: true, but timed, but its"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.check->max_error_ratio = 2; }), HasSubstr("2 times its bound"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.series[0].flags = {"suspect"}; }), HasSubstr("50 % of its roof"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.series.push_back(j.series[0]); }),
              HasSubstr("series: \"call, warm, 4 threads\" occurs twice"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.step->residual_s = 0.4; }), HasSubstr("step: residual_s is 0.4"));
  EXPECT_THAT(contradiction_after([](Job& j) { j.series[0].scope = Scope::kernel; }), HasSubstr("has a call series"));
}

TEST(Contradictions, SeriesAndSweepsThatContradictThemselves) {
  Summary s = make_series(Scope::call, 1, 0.5).summary;
  EXPECT_EQ(shown(s), "none");
  s.median_s = 1.02;
  EXPECT_THAT(shown(s), StartsWith("median_s"));
  s.median_s = 0.98;
  EXPECT_THAT(shown(s), StartsWith("median_s"));
  s.median_s = 1;
  s.min_s = 0.995;
  EXPECT_THAT(shown(s), StartsWith("min_s"));
  Roof roof = *make_series(Scope::call, 1, 0.5).roof;
  EXPECT_EQ(shown(roof), "none");
  roof.hi = 0.4;
  EXPECT_THAT(shown(roof), StartsWith("fraction"));
  EXPECT_THAT(shown(Repetition{}), StartsWith("samples_s"));
  Repetition unpaired = make_series(Scope::call, 1, 0.5).repetitions[0];
  unpaired.roof_s.pop_back();
  EXPECT_THAT(shown(unpaired), StartsWith("roof_s: 2 values for 3 samples"));
  EXPECT_THAT(shown(Series{}), StartsWith("repetitions"));
  EXPECT_THAT(shown(Sweep{}), StartsWith("points"));
  Sweep sweep;
  for (const int64_t size : {1, 4, 2}) sweep.points.push_back({size, 1.0, std::nullopt, std::nullopt});
  EXPECT_THAT(shown(sweep), HasSubstr("size 2 follows 4"));
  sweep.points.pop_back();
  EXPECT_EQ(shown(sweep), "none");
}

}  // namespace
}  // namespace duet::results::testing
