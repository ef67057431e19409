// SPDX-License-Identifier: Apache-2.0
// The answer in words: who wins, by how much, from which size on, and what to read with care.
#include "reports/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/report.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::testing::decide;
using results::testing::make_job;
using results::testing::make_missing;
using results::testing::make_run;
using results::testing::make_series;
using results::testing::make_step;
using results::testing::set_fraction;
using testing::HasSubstr;
using testing::Not;

// A case of `n` bytes on both sides. The call of the GPU takes gpu_s, with copies copies_s.
void add_case(std::vector<Job>& jobs, const std::string& op, int64_t n, double cpu_s, double gpu_s, double copies_s,
              double cpu_share = 0.8) {
  const std::string end = "/f32/n:" + std::to_string(n);
  jobs.push_back(make_job(op + "/cpu.tuned" + end, {make_series(Scope::call, cpu_s, cpu_share, 4)}));
  jobs.push_back(make_job(op + "/cuda.tuned" + end,
                          {make_series(Scope::kernel, 0.5 * gpu_s, 0.9), make_series(Scope::call, gpu_s, 0.45),
                           make_series(Scope::end_to_end, copies_s, 0.1)}));
  for (size_t i = jobs.size() - 2; i < jobs.size(); ++i) {
    jobs[i].bytes = n;
    jobs[i].family = op;
  }
}

std::string answer_of(const results::Run& run) { return answer(run, analyse(run)).text(); }

TEST(ReportsAnswer, TheGpuWinsEverything) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1 << 20, 1e-3, 1e-4, 5e-4);
  add_case(jobs, "gelu", 1 << 21, 3e-3, 1e-4, 1e-3);
  add_case(jobs, "gemm", 1 << 22, 2e-3, 1e-4, 1e-3);
  const results::Run run = make_run(std::move(jobs));
  const Answer made = answer(run, analyse(run));
  EXPECT_EQ(made.headline, "The GPU wins all 3 cases.");
  EXPECT_EQ(made.sentences[0], "In the median case the GPU is 20.0× faster by call and 2.00× with copies.");
  EXPECT_EQ(made.sentences[1],
            "Largest advantage by call: GPU 30.0× (gelu f32 n:2097152); smallest: 10.0× (relu f32 n:1048576).");
  EXPECT_EQ(made.sentences.size(), 2u) << made.text();
  EXPECT_EQ(conclude_cases(analyse(run)), "The CPU wins no case.");
}

TEST(ReportsAnswer, TheCpuWinsEverything) {
  std::vector<Job> jobs;
  for (int64_t i = 0; i < 4; ++i) add_case(jobs, "relu", 1024 + i, 1e-6, 5e-6, 1e-4);
  const std::string text = answer_of(make_run(std::move(jobs)));
  EXPECT_THAT(
      text,
      HasSubstr("The CPU wins all 4 cases. In the median case the CPU is 5.00× faster by call and 100× with copies."));
  EXPECT_THAT(text, HasSubstr("The CPU wins all 4 memory-bound cases."));
}

TEST(ReportsAnswer, AMixedRunSaysFromWhichSizeOnTheGpuWins) {
  std::vector<Job> jobs;
  for (const int64_t n : {1024, 4096, 16384}) add_case(jobs, "relu", n, 1e-6, 5e-6, 1e-4);
  add_case(jobs, "relu", 65536, 6e-6, 5e-6, 1e-4);
  add_case(jobs, "gelu", 65536, 4e-6, 5e-6, 1e-4);  // of the same size: no border between the two
  for (const int64_t n : {1 << 20, 1 << 22, 1 << 24, 1 << 26}) add_case(jobs, "relu", n, 1e-3, 1e-5, 2e-3, 0.3);
  const std::string text = answer_of(make_run(std::move(jobs)));
  EXPECT_THAT(text, HasSubstr("The GPU wins 5 of 9 cases, the CPU 4."));
  EXPECT_THAT(text, HasSubstr("by call; with copies the CPU is"));
  EXPECT_THAT(
      text, HasSubstr("the CPU wins all 3 below 64.0 KiB (2^14 elements of f32) and the GPU all 4 from 1.00 MiB (2^18 "
                      "elements of f32) on."));
  EXPECT_THAT(text,
              HasSubstr("In 4 cases the CPU reaches less than 40 % of its own roof: read those ratios with care."));
}

TEST(ReportsAnswer, ARatioWhoseIntervalHoldsOneIsLevel) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1024, 1.001e-5, 1e-5, 1e-4);
  EXPECT_THAT(answer_of(make_run(jobs)), HasSubstr("CPU and GPU are level in the only case."));
  add_case(jobs, "relu", 4096, 5e-5, 1e-5, 1e-4);
  EXPECT_THAT(answer_of(make_run(std::move(jobs))), HasSubstr("The GPU wins 1 of 2 cases, 1 is level."));
}

TEST(ReportsAnswer, StepsAreCountedApart) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1024, 1e-6, 5e-6, 1e-4);
  jobs.push_back(make_step("step/mlp/cpu/f32/batch:8", 0.9, {{"gemm", 0.5}}));
  jobs.push_back(make_step("step/mlp/gpu/f32/batch:8", 0.1, {{"gemm", 0.05}}));
  const results::Run run = make_run(std::move(jobs));
  EXPECT_THAT(answer_of(run), HasSubstr("The CPU wins the only case."));
  EXPECT_THAT(answer_of(run), HasSubstr("Training steps: the GPU wins the only step."));
  EXPECT_EQ(conclude_steps(analyse(run), Kind::step),
            "The GPU wins the only step. In step mlp f32 batch:8 the GPU is 9.00× faster.");
}

TEST(ReportsAnswer, WithoutAGpuItSaysHowCloseTheCpuComesToItsRoof) {
  std::vector<Job> jobs;
  for (int64_t i = 0; i < 3; ++i)
    add_case(jobs, "relu", 1024 + i, 1e-5, 1e-6, 1e-4, 0.8 + 0.05 * static_cast<double>(i));
  add_case(jobs, "conv", 4096, 1e-5, 1e-6, 1e-4, 0.1);
  std::erase_if(jobs, [](const Job& job) { return job.device == Device::gpu; });
  jobs.push_back(make_missing("relu/cuda.tuned/f32/n:1", Status::skipped, "no CUDA device"));
  jobs.push_back(make_missing("relu/cpu.naive/f32/n:1", Status::failed, "killed"));
  results::Run run = make_run(std::move(jobs));
  run.machine.gpu.reset();
  EXPECT_EQ(
      answer_of(run),
      "The CPU reaches 82 % of its roof in the median of 4 cases. No GPU was measured (no CUDA device), so there is "
      "no speedup. 3 cases reach 70 % or more of it. 1 case stays below 40 %: conv (1 of 1). Closest to its roof: relu "
      "f32 n:1026 (90 %); furthest: conv f32 n:4096 (10 %). 1 job failed: it does not count here.");
}

// A median is over the cases that have a roof, and says so.
TEST(ReportsAnswer, CasesWithoutARoofAreCountedApart) {
  std::vector<Job> jobs;
  for (int64_t i = 0; i < 4; ++i) add_case(jobs, "relu", 1024 + i, 1e-5, 1e-6, 1e-4, 0.8);
  std::erase_if(jobs, [](const Job& job) { return job.device == Device::gpu; });
  const auto text = [&] {
    const results::Run run = make_run(jobs);
    const Analysis analysis = analyse(run);
    EXPECT_THAT(conclude_cpu_times(analysis), testing::StartsWith(answer(run, analysis).headline.substr(0, 30)));
    return answer(run, analysis).headline;
  };
  EXPECT_EQ(text(), "The CPU reaches 80 % of its roof in the median of 4 cases.");
  jobs[0].series[0].roof.reset();
  EXPECT_EQ(text(),
            "The CPU reaches 80 % of its roof in the median of 3 of 4 cases; the other has no roof to compare with.");
  jobs[1].series[0].roof.reset();
  jobs[2].series[0].roof.reset();
  EXPECT_EQ(text(), "The CPU reaches 80 % of its roof in 1 of 4 cases; the others have no roof to compare with.");
  jobs[3].series[0].roof.reset();
  EXPECT_EQ(answer(make_run(jobs), analyse(make_run(jobs))).headline,
            "The CPU ran 4 cases; none has a roof to compare with.");
}

TEST(ReportsAnswer, AShareOfADisturbedRoofIsNone) {
  std::vector<Job> jobs;
  for (int64_t i = 0; i < 3; ++i) add_case(jobs, "relu", 1024 + i, 1e-5, 1e-6, 1e-4, 0.8);
  std::erase_if(jobs, [](const Job& job) { return job.device == Device::gpu; });
  set_fraction(jobs[1].series[0], 17);
  jobs[1].series[0].flags = {results::flag::kDisturbed};
  EXPECT_THAT(answer_of(make_run(jobs)),
              testing::AllOf(HasSubstr("80 % of its roof in the median of 2 of 3 cases"), Not(HasSubstr("1700 %"))));
  jobs.erase(jobs.begin());
  jobs.erase(jobs.begin() + 1);
  const results::Run alone = make_run(std::move(jobs));
  EXPECT_THAT(answer_of(alone), HasSubstr("The CPU ran 1 case; none has an undisturbed roof to compare with."));
  EXPECT_THAT(conclude_cpu_times(analyse(alone)), Not(HasSubstr("1700 %")));
}

// Within the noise neither side wins: not in a sentence, not among losses, not in the total of a family.
TEST(ReportsAnswer, LevelCasesAreNobodysVictory) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1024, 0.999e-5, 1e-5, 1e-4);
  add_case(jobs, "relu", 2048, 1.001e-5, 1e-5, 1e-4);
  add_case(jobs, "relu", 4096, 5e-5, 1e-5, 1e-4);
  const results::Run run = make_run(std::move(jobs));
  const Analysis analysis = analyse(run);
  EXPECT_EQ(conclude_cases(analysis), "The CPU wins no case.");
  EXPECT_THAT(answer(run, analysis).text(), HasSubstr("Largest advantage by call: GPU 5.00× (relu f32 n:4096)."));
  ASSERT_EQ(analysis.families.size(), 1u);
  EXPECT_EQ(analysis.families[0].gpu_wins, 1u);
  EXPECT_EQ(analysis.families[0].cpu_wins, 0u);
}

TEST(ReportsAnswer, WhereTheCpuWinsEveryFamilyNoneGains) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1024, 1e-6, 5e-6, 1e-4);
  add_case(jobs, "gelu", 1024, 1e-6, 2e-6, 1e-4);
  EXPECT_EQ(conclude_speedups(analyse(make_run(std::move(jobs)))),
            "In the median of every family the CPU is faster: least in gelu (2.00×), most in relu (5.00×).");
}

TEST(ReportsAnswer, OneCaseIsNotAllCases) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1024, 1e-6, 5e-6, 1e-4, 0.8);
  jobs.resize(1);
  EXPECT_EQ(conclude_bandwidth(analyse(make_run(jobs))), "The CPU reaches 70 % of its bandwidth in the only case.");
}

TEST(ReportsAnswer, ASweepWithoutOneSideIsNotCounted) {
  results::Run run = make_run(results::testing::softmax_pair());
  const results::SweepPoint both{.size = 1, .cpu_s = 2e-6, .gpu_call_s = 1e-6, .gpu_end_to_end_s = {}},
      cpu{.size = 1, .cpu_s = 2e-6, .gpu_call_s = {}, .gpu_end_to_end_s = {}};
  run.sweeps = {{"gelu", "f32", "n", {}, {both}}, {"relu", "f32", "n", {}, {cpu}}};
  EXPECT_EQ(conclude_break_even(analyse(run)),
            "Of 1 sweep with both sides (of 2), the GPU is ahead at every size in 1, from some size on in 0, and never "
            "in 0.");
}

TEST(ReportsAnswer, EverySectionOfACpuRunConcludes) {
  results::Run run = make_run({results::testing::softmax_pair()[0]});
  run.machine.gpu.reset();
  std::erase_if(run.ceilings, [](const Ceiling& ceiling) { return ceiling.device == "gpu"; });
  const results::SweepPoint small{.size = 16, .cpu_s = 1e-6, .gpu_call_s = {}, .gpu_end_to_end_s = {}},
      large{.size = 64, .cpu_s = 3e-6, .gpu_call_s = {}, .gpu_end_to_end_s = {}};
  run.sweeps = {{"gelu", "f32", "n", {}, {small, large}}};
  EXPECT_EQ(conclude_break_even(analyse(run)), "The CPU's time of gelu grows 3.00× while n grows 4.00×.");
  EXPECT_EQ(conclude_ceilings(run), "The highest ceilings: cpu.copy with 10.0 GB/s, cpu.fma.f32 with 100 GFLOP/s.");
  EXPECT_THAT(conclude_cpu_times(analyse(run)), HasSubstr("of its roof in the only case"));
}

TEST(ReportsAnswer, AWeakCpuInStepsAloneIsSaid) {
  std::vector<Job> jobs{make_step("step/mlp/cpu/f32/batch:8", 0.9, {{"gemm", 0.9}}),
                        make_step("step/mlp/gpu/f32/batch:8", 0.1, {{"gemm", 0.1}})};
  set_fraction(jobs[0].series[0], 0.2);
  decide(jobs[0]);
  EXPECT_THAT(answer_of(make_run(std::move(jobs))),
              HasSubstr("In 1 step the CPU reaches less than 40 % of its own roof: read that ratio with care."));
}

TEST(ReportsAnswer, NothingMeasuredIsAnAnswerToo) {
  EXPECT_EQ(answer_of(make_run({})), "Nothing was measured. 0 jobs: 0 skipped, 0 failed, 0 refused or suspect.");
  const results::Run run = make_run({make_missing("relu/cuda.tuned/f32/n:1", Status::skipped, "no CUDA device"),
                                     make_missing("relu/cpu.tuned/f32/n:1", Status::failed, "killed")});
  EXPECT_EQ(answer_of(run),
            "Nothing was measured. 2 jobs: 1 skipped, 1 failed, 0 refused or suspect. The most frequent "
            "reason: killed (1 job).");
}

TEST(ReportsAnswer, OneSideEachIsNoPair) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1024, 1e-6, 5e-6, 1e-4);
  add_case(jobs, "gelu", 1024, 1e-6, 5e-6, 1e-4);
  jobs.erase(jobs.begin() + 3);
  jobs.erase(jobs.begin());
  const std::string text = answer_of(make_run(std::move(jobs)));
  EXPECT_THAT(text, HasSubstr("No case has a result on both sides. 1 on the CPU alone, 1 on the GPU alone."));
}

TEST(ReportsAnswer, TheStateOfTheRunIsPartOfIt) {
  std::vector<Job> jobs;
  add_case(jobs, "relu", 1024, 1e-6, 5e-6, 1e-4);
  results::Run run = make_run(std::move(jobs));
  EXPECT_THAT(answer_of(run), Not(HasSubstr("disturbed")));
  run.invocation.trust = Trust::disturbed;
  EXPECT_TRUE(answer_of(run).ends_with("The run was disturbed: read it with care."));
  run.invocation.trust = Trust::unusable;
  EXPECT_EQ(answer(run, analyse(run)).sentences.front(), "The run is unusable for ratios.");
}

TEST(ReportsAnswer, TheConsoleEndsWithIt) {
  std::vector<Job> jobs;
  for (const int64_t n : {1024, 4096, 16384}) add_case(jobs, "relu", n, 1e-6, 5e-6, 1e-4);
  const results::Run run = make_run(std::move(jobs));
  std::string console = console_table(run);
  for (char& c : console)
    if (c == '\n') c = ' ';
  EXPECT_TRUE(console.ends_with(answer_of(run) + " ")) << console;
}

}  // namespace
}  // namespace duet::reports
