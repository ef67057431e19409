// SPDX-License-Identifier: Apache-2.0
// Runs of several processes as one: which values its summaries are over, and what a failure in one process costs.
#include "results/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/results/fixture.h"

namespace duet::results::testing {
namespace {

using ::testing::HasSubstr;

// A CPU's job that takes this long in one process.
results::Run process(double time_s) {
  return make_run({make_job("softmax/cpu.tuned/f32/rows:64", {make_series(Scope::call, time_s, 0.5, 2)})});
}

TEST(Merge, SummariesAreOverTheProcesses) {
  const results::Run run = merge({process(1), process(4), process(2)});
  ASSERT_EQ(run.jobs.size(), 1u);
  const Series& s = run.jobs[0].series.at(0);
  ASSERT_EQ(s.repetitions.size(), 15u);
  EXPECT_EQ(s.repetitions[4].process, 0);
  EXPECT_EQ(s.repetitions[5].process, 1);
  EXPECT_EQ(s.repetitions[14].process, 2);
  EXPECT_DOUBLE_EQ(s.summary.median_s, 2);
  EXPECT_DOUBLE_EQ(s.summary.lo_s, 1);
  EXPECT_DOUBLE_EQ(s.summary.hi_s, 4);
  EXPECT_EQ(s.summary.interval, "min-max of 3 processes");
  EXPECT_EQ(run.invocation.processes, 3);
  EXPECT_EQ(counted_medians(s.repetitions), (std::vector<double>{1, 4, 2}));
}

TEST(Merge, SixProcessesBoundTheMedian) {
  std::vector<results::Run> runs(6, process(1));
  EXPECT_EQ(merge(std::move(runs)).jobs[0].series[0].summary.interval, "order statistics of 6 processes");
}

TEST(Merge, OneProcessIsLeftAsItIs) {
  EXPECT_EQ(merge({process(1)}).jobs[0].series[0].summary.interval, "min-max of repetition medians");
}

TEST(Merge, DisturbedRepetitionsOfAProcessDoNotCount) {
  results::Run disturbed = process(2);
  for (Repetition& r : disturbed.jobs[0].series[0].repetitions)
    if (r.order > 0) r.flags = {flag::kContended};
  const results::Run run = merge({process(1), disturbed});
  const Series& s = run.jobs[0].series[0];
  EXPECT_DOUBLE_EQ(counted_medians(s.repetitions)[1], 2 * (1 - 0.005 * 2));
}

TEST(Merge, AFailureInOneProcessFailsTheJob) {
  results::Run broken = process(1);
  broken.jobs[0].status = Status::failed;
  broken.jobs[0].series.clear();
  broken.jobs[0].reason = "killed by SIGSEGV";
  for (const bool first : {true, false}) {
    const results::Run run = first ? merge({broken, process(1)}) : merge({process(1), broken});
    EXPECT_EQ(run.jobs[0].status, Status::failed);
    EXPECT_TRUE(run.jobs[0].series.empty());
    EXPECT_THAT(run.jobs[0].reason, HasSubstr("killed by SIGSEGV"));
  }
}

TEST(Merge, WhatAnInterruptedProcessSkippedCostsNoRow) {
  results::Run cut = process(1);
  cut.jobs[0].status = Status::skipped;
  cut.jobs[0].series.clear();
  cut.jobs[0].reason = "interrupted before it ran";
  EXPECT_EQ(merge({process(1), cut}).jobs[0].status, Status::skipped) << "a whole process had a reason to skip it";
  cut.invocation.complete = false;
  const results::Run run = merge({process(1), cut});
  EXPECT_EQ(run.jobs[0].status, Status::ok);
  EXPECT_EQ(run.jobs[0].series[0].repetitions.size(), 5u);
}

TEST(Merge, WarningsOfAllProcessesStandOnce) {
  results::Run a = process(1), b = process(1);
  a.invocation.warnings = {"both"};
  b.invocation.warnings = {"both", "second"};
  b.invocation.complete = false;
  const results::Run run = merge({a, b});
  EXPECT_EQ(run.invocation.warnings, (std::vector<std::string>{"both", "process 1: second"}));
  EXPECT_FALSE(run.invocation.complete);
}

TEST(Merge, RefusesOtherJobs) {
  results::Run other = process(1);
  other.jobs[0].name = "relu/cpu.tuned/f32/n:3";
  EXPECT_THROW(merge({process(1), other}), Error);
  other.jobs.clear();
  EXPECT_THROW(merge({process(1), other}), Error);
}

}  // namespace
}  // namespace duet::results::testing
