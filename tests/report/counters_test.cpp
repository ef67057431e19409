// SPDX-License-Identifier: Apache-2.0
// Measured traffic and energy: the section, its sentence, and what stands there where nothing was counted.
#include "reports/counters.h"

#include <gmock/gmock.h>

#include "reports/report.h"
#include "reports/sections.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::testing::count_in;
using results::testing::make_counters;
using results::testing::make_job;
using results::testing::make_run;
using results::testing::make_series;
using results::testing::read;
using results::testing::Scratch;
using results::testing::softmax_pair;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kBytes = 1'000'000;

// relu on the CPU alone and softmax on both sides. The GPU's window is of its kernel.
results::Run counted_run() {
  std::vector<Job> jobs = softmax_pair();
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 1e-3, 0.5, 4)}));
  for (Job& job : jobs) job.bytes = kBytes;
  jobs[0].counters = make_counters(1.02e6, 0.5, {});
  jobs[1].counters = make_counters({}, 0.1, 0.15, Scope::kernel, 1);
  jobs[2].counters = make_counters(1.5e6, 0.25, {});
  return make_run(std::move(jobs));
}

std::string section_of(const results::Run& run, std::string* page = nullptr) {
  const Scratch scratch;
  write_report(scratch.write("run.json", results::run_text(run)), (scratch / "out").string());
  const std::string markdown = read(scratch / "out/report.md");
  if (page) *page = read(scratch / "out/report.html");
  const size_t begin = markdown.find("## Traffic and energy");
  if (begin == std::string::npos) return "";
  return markdown.substr(begin, markdown.find("\n## ", begin + 1) - begin);
}

TEST(ReportsCounters, EnergyIsThatOfAllThatRanTheJob) {
  const results::Run run = counted_run();
  const auto cpu = energy_of(run.jobs[0]), gpu = energy_of(run.jobs[1]);
  ASSERT_TRUE(cpu && gpu);
  EXPECT_DOUBLE_EQ(cpu->joules, 0.5);
  EXPECT_DOUBLE_EQ(cpu->watts, 50) << "100 applications a second";
  EXPECT_EQ(cpu->parts, "CPU");
  EXPECT_DOUBLE_EQ(gpu->joules, 0.25) << "the board and the host that waits for it";
  EXPECT_EQ(gpu->parts, "GPU + CPU");
  EXPECT_DOUBLE_EQ(traffic_ratio(run.jobs[2]).value_or(0), 1.5);
  EXPECT_FALSE(traffic_ratio(run.jobs[1]));
  Job host_only = run.jobs[1];
  host_only.counters = make_counters({}, 0.1, {});
  EXPECT_FALSE(energy_of(host_only)) << "the host's alone is not that of a job on the GPU";
  host_only.counters.reset();
  EXPECT_FALSE(energy_of(host_only));
}

TEST(ReportsCounters, MeasuredStandsBesideCompulsoryWithTheirRatio) {
  std::string page;
  const std::string section = section_of(counted_run(), &page);
  EXPECT_THAT(section, HasSubstr("1.00 MB"));
  EXPECT_THAT(section, HasSubstr("1.50 MB"));
  EXPECT_THAT(section, HasSubstr("1.02"));
  EXPECT_THAT(section, HasSubstr("500 mJ"));
  EXPECT_THAT(section, HasSubstr("50.0 W"));
  EXPECT_THAT(section, HasSubstr("emory traffic by memory controllers"));
  EXPECT_THAT(section, HasSubstr("memory traffic of 1 of 3 jobs (no counter of the last cache)"));
  EXPECT_THAT(section,
              HasSubstr("1 of 2 jobs moves more than 10 % beyond the compulsory traffic; measured / compulsory "
                        "is 1.26 at the median, and 1.50 at most (relu f32 n:8 by cpu.tuned)"));
  EXPECT_THAT(section, HasSubstr("the GPU and its host take less energy than the CPU in 1 of 1 case; CPU / GPU is 2.00 "
                                 "at the median"));
  EXPECT_THAT(page, HasSubstr("Traffic and energy"));
  results::Run board_only = counted_run();
  board_only.jobs[1].counters = make_counters({}, {}, 0.15, Scope::kernel, 1);
  EXPECT_THAT(section_of(board_only), Not(HasSubstr("take less energy"))) << "the CPU's has its host";
}

TEST(ReportsCounters, WithoutAGpuItSaysWhatPowerItTook) {
  results::Run run = counted_run();
  run.jobs.erase(run.jobs.begin() + 1);
  EXPECT_THAT(section_of(run), HasSubstr("the power of 2 jobs is 37.5 W at the median, from 25.0 W to 50.0 W"));
}

TEST(ReportsCounters, WhereNothingWasCountedOneSentenceSaysWhy) {
  results::Run run = counted_run();
  for (Job& job : run.jobs)
    job.counters = make_counters({}, {}, {}, job.series[0].scope, static_cast<int>(job.series[0].threads));
  const std::string section = section_of(run);
  EXPECT_THAT(section, HasSubstr("Nothing was counted: memory traffic of all 3 jobs (no counter of the last cache); "
                                 "energy of the CPU of all 3 jobs (the kernel shows no RAPL); energy of the GPU"));
  EXPECT_THAT(section, Not(HasSubstr("|"))) << "no table";
  EXPECT_THAT(section, Not(HasSubstr(" 0 ")));
}

TEST(ReportsCounters, ARunWithoutCountersHasNoSection) { EXPECT_EQ(section_of(make_run(softmax_pair())), ""); }

}  // namespace
}  // namespace duet::reports
