// SPDX-License-Identifier: Apache-2.0
// What may be compared with what, and the numbers that come out.
#include <gtest/gtest.h>

#include "reports/analysis.h"
#include "reports/answer.h"
#include "reports/format.h"
#include "reports/phrases.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::Sweep;
using results::testing::decide;
using results::testing::make_job;
using results::testing::make_missing;
using results::testing::make_run;
using results::testing::make_series;
using results::testing::make_step;
using results::testing::softmax_pair;

constexpr size_t kKernel = 0, kCall = 1, kEndToEnd = 2;

// Keeps the run alive beside the analysis that points into it.
struct Analysed {
  explicit Analysed(results::Run given) : run(std::move(given)), result(analyse(run)) {}
  // With flags and verdicts as the rules give them after what the test has changed.
  explicit Analysed(std::vector<Job> jobs) : Analysed(decided(std::move(jobs))) {}
  Analysed(const Analysed&) = delete;
  static results::Run decided(std::vector<Job> jobs) {
    for (Job& job : jobs)
      if (job.status == Status::ok) decide(job);
    return make_run(std::move(jobs));
  }
  results::Run run;
  Analysis result;
};

const MissingGroup* find_group(const Analysis& analysis, const std::string& status) {
  for (const MissingGroup& group : analysis.missing)
    if (group.status == status) return &group;
  return nullptr;
}

TEST(ReportsAnalysis, PairsTheSidesOfACase) {
  const Analysed a(softmax_pair());
  ASSERT_EQ(a.result.speedups.size(), 1u);
  const SpeedupRow& row = a.result.speedups[0];
  EXPECT_NEAR(row.ratio[kKernel]->value, 100, 1);
  EXPECT_NEAR(row.ratio[kCall]->value, 50, 0.5);
  EXPECT_NEAR(row.ratio[kEndToEnd]->value, 0.5, 0.005);
  EXPECT_EQ(row.ratio[kCall]->label, "95 %");
  EXPECT_EQ(row.cpu.call->threads, 4);
  ASSERT_TRUE(row.one_thread);
  EXPECT_EQ(row.one_thread->summary.median_s, 3e-3);
  EXPECT_FALSE(row.weak_cpu);
  EXPECT_FALSE(row.contested);
  EXPECT_TRUE(a.result.one_sided.empty());
  EXPECT_TRUE(a.result.missing.empty());
}

TEST(ReportsAnalysis, TheFastestVerifiedSideCounts) {
  auto jobs = softmax_pair();
  jobs.push_back(make_job("softmax/cpu.onednn/f32/rows:64", {make_series(Scope::call, 5e-4, 0.9, 4)}));
  EXPECT_EQ(Analysed(jobs).result.speedups[0].cpu.job->impl, "cpu.onednn");
  jobs[2].check->slices = 0;
  const Analysed nothing_compared(jobs);
  EXPECT_EQ(nothing_compared.result.speedups[0].cpu.job->impl, "cpu.tuned");
  EXPECT_EQ(nothing_compared.result.excluded_jobs, 1u);
  ASSERT_TRUE(find_group(nothing_compared.result, "excluded"));
  EXPECT_EQ(find_group(nothing_compared.result, "excluded")->jobs[0], "softmax/cpu.onednn/f32/rows:64");
}

TEST(ReportsAnalysis, OneThreadIsTheCpuSideWhereItIsFaster) {
  auto jobs = softmax_pair();
  jobs[0].series[1] = make_series(Scope::call, 4e-4, 0.9, 1);
  EXPECT_EQ(Analysed(jobs).result.speedups[0].cpu.call->threads, 1);
}

TEST(ReportsAnalysis, SuspectJobsStandInNoRatio) {
  auto jobs = softmax_pair();
  results::testing::set_fraction(jobs[0].series[0], 1.04);  // 4 threads; the one-thread row alone looks fine
  const Analysed a(jobs);
  EXPECT_TRUE(a.result.speedups.empty());
  EXPECT_EQ(a.result.suspect_jobs, 1u);
  ASSERT_TRUE(find_group(a.result, "suspect"));
  EXPECT_NE(find_group(a.result, "suspect")->reason.find("104 % of its roof"), std::string::npos);
  ASSERT_EQ(a.result.one_sided.size(), 1u);
  EXPECT_EQ(a.result.one_sided[0].device, Device::gpu);
  EXPECT_NE(a.result.one_sided[0].no_ratio_reason.find("104 % of its roof"), std::string::npos);

  results::testing::set_fraction(jobs[0].series[0], 1.03);
  EXPECT_EQ(Analysed(jobs).result.speedups.size(), 1u);
}

TEST(ReportsAnalysis, ASuspectFasterJobMakesARatioContested) {
  auto jobs = softmax_pair();
  jobs.push_back(make_job("softmax/cpu.onednn/f32/rows:64", {make_series(Scope::call, 5e-4, 1.3, 4)}));
  EXPECT_TRUE(Analysed(jobs).result.speedups.at(0).contested);
  jobs[2] = make_job("softmax/cpu.onednn/f32/rows:64", {make_series(Scope::call, 5e-3, 1.3, 4)});
  EXPECT_FALSE(Analysed(jobs).result.speedups.at(0).contested);
}

TEST(ReportsAnalysis, TheVerdictOfTheFileIsTaken) {
  std::vector<Job> jobs = softmax_pair();
  jobs[0].comparable = false;  // for a reason that only a later writer knows
  jobs[0].reason = "measured in another universe";
  const Analysed a(make_run(jobs));
  EXPECT_TRUE(a.result.speedups.empty());
  ASSERT_EQ(a.result.one_sided.size(), 1u);
  EXPECT_EQ(a.result.one_sided[0].no_ratio_reason, "measured in another universe");
}

TEST(ReportsAnalysis, AWeakCpuIsMarked) {
  auto jobs = softmax_pair();
  results::testing::set_fraction(jobs[0].series[0], 0.4);
  EXPECT_FALSE(Analysed(jobs).result.speedups[0].weak_cpu);
  results::testing::set_fraction(jobs[0].series[0], 0.39);
  EXPECT_TRUE(Analysed(jobs).result.speedups[0].weak_cpu);
  jobs[0].series[0].roof.reset();
  EXPECT_FALSE(Analysed(jobs).result.speedups[0].weak_cpu);
}

TEST(ReportsAnalysis, ALibraryThatBeatsOurCodeIsNamed) {
  const auto text = [](double library_s) {
    const Analysed a({make_job("softmax/cpu.tuned/f32/rows:64", {make_series(Scope::call, 1e-3, 0.5, 4)}),
                      make_job("softmax/cpu.onednn/f32/rows:64", {make_series(Scope::call, library_s, 0.9, 4)})});
    return conclude_cpu_times(a.result);
  };
  EXPECT_NE(text(5e-4).find("A library is more than 10 % faster than our own CPU code in 1 result: softmax f32 rows:64 "
                            "(cpu.onednn, 2.00×)."),
            std::string::npos)
      << text(5e-4);
  EXPECT_EQ(text(0.95e-3).find("A library"), std::string::npos);
}

TEST(ReportsAnalysis, MediansPreferUndisturbedRepetitions) {
  auto jobs = softmax_pair();
  auto& repetitions = jobs[0].series[0].repetitions;
  for (const size_t i : {0, 1}) {
    repetitions[i].samples_s = {1.0};
    repetitions[i].flags = {"contended"};
  }
  repetitions[2].flags = {"retried"};
  const Analysed a(jobs);
  EXPECT_NEAR(a.result.speedups[0].ratio[kCall]->value, 50, 1);
  EXPECT_EQ(a.result.disturbed_repetitions, 2u);
}

TEST(ReportsAnalysis, CacheStatesAreComparedWithTheirLike) {
  auto jobs = softmax_pair();
  jobs[0].series.push_back(make_series(Scope::call, 2e-3, 0.5, 4, Cache::cold));
  jobs[1].series.push_back(make_series(Scope::call, 1e-4, 0.5, 1, Cache::cold));
  const Analysed both(jobs);
  ASSERT_EQ(both.result.speedups.size(), 2u);
  EXPECT_EQ(both.result.speedups[0].cpu.call->cache, Cache::warm);
  EXPECT_TRUE(both.result.speedups[0].primary);
  EXPECT_EQ(both.result.speedups[1].gpu.call->cache, Cache::cold);
  EXPECT_NEAR(both.result.speedups[1].ratio[kCall]->value, 20, 1);
  EXPECT_FALSE(both.result.speedups[1].ratio[kKernel]);
  EXPECT_FALSE(both.result.speedups[1].primary);

  auto far_beyond_cache = softmax_pair();  // only cold was run on the CPU: its states coincide
  far_beyond_cache[0].series = {make_series(Scope::call, 1e-3, 0.8, 4, Cache::cold)};
  EXPECT_EQ(Analysed(far_beyond_cache).result.speedups.size(), 1u);
}

TEST(ReportsAnalysis, RanksByCallAndTotalsFamilies) {
  auto jobs = softmax_pair();
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 4e-3, 0.8, 4)}));
  jobs.push_back(make_job("relu/cuda.tuned/f32/n:8", {make_series(Scope::call, 2e-5, 0.8)}));
  const Analysed a(jobs);
  ASSERT_EQ(a.result.speedups.size(), 2u);
  EXPECT_EQ(a.result.speedups[0].case_name, "relu/f32/n:8");
  ASSERT_EQ(a.result.families.size(), 1u);
  EXPECT_NEAR(a.result.families[0].geometric_mean, 100, 1);  // of 50 and 200
  EXPECT_NEAR(a.result.families[0].cpu_s, 5e-3, 1e-9);
}

TEST(ReportsAnalysis, WithoutAGpuItSaysWhy) {
  auto jobs = softmax_pair();
  jobs[1] = make_missing("softmax/cuda.tuned/f32/rows:64", Status::skipped, "built without CUDA");
  const Analysed a(jobs);
  EXPECT_FALSE(a.result.gpu_measured);
  EXPECT_EQ(a.result.no_gpu_reason, "built without CUDA");
  ASSERT_EQ(a.result.one_sided.size(), 1u);
  EXPECT_EQ(a.result.one_sided[0].no_ratio_reason, "built without CUDA");
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 1e-6, 0.5, 4)}));  // no GPU job beside it
  EXPECT_EQ(Analysed(jobs).result.one_sided.at(1).no_ratio_reason, "built without CUDA");
  results::Run none = make_run({softmax_pair()[0]});
  none.machine.gpu.reset();
  EXPECT_EQ(Analysed(none).result.no_gpu_reason, "no GPU on this machine");
  none.invocation.no_gpu = "no NVIDIA driver";
  EXPECT_EQ(Analysed(none).result.no_gpu_reason, "no NVIDIA driver");
}

TEST(ReportsAnalysis, ChoosesTheCeilingOfLargestFootprintAndMostThreads) {
  const Analysed a(softmax_pair());
  EXPECT_EQ(chosen_ceiling(a.run, "cpu.copy")->value, 1e10);
  EXPECT_EQ(chosen_ceiling(a.run, "cpu.none"), nullptr);
  ASSERT_EQ(a.result.rooflines.size(), 2u);
  EXPECT_EQ(a.result.rooflines[0].bandwidth->value, 1e10);
  EXPECT_EQ(a.result.rooflines[0].compute[0].dtype, "f32");
  EXPECT_NEAR(a.result.rooflines[1].points[0].rate, 1e11, 1);  // the GPU by its kernel
  ASSERT_EQ(a.result.bandwidth.size(), 1u);
  EXPECT_EQ(a.result.bandwidth[0].bars.size(), 2u);
}

Sweep sweep_of(std::vector<std::pair<double, double>> cpu_gpu) {
  Sweep sweep;
  int64_t size = 1;
  for (const auto& [cpu, gpu] : cpu_gpu) {
    sweep.points.push_back({size, cpu, gpu, {}});
    size *= 4;
  }
  return sweep;
}

TEST(ReportsAnalysis, PercentilesAreOfSingleCalls) {
  Job job = make_job("softmax/cpu.tuned/f32/rows:1", {make_series(Scope::call, 1e-3, 0.9, 4)});
  job.params = {{"rows", int64_t{1}}};
  results::Series& call = job.series[0];
  call.batch = 1;
  call.repetitions.resize(2);
  for (results::Repetition& repetition : call.repetitions) repetition.samples_s.assign(40, 1e-3);
  for (int i = 0; i < 10; ++i) call.repetitions[0].samples_s[static_cast<size_t>(i)] = 2e-3;
  const Percentiles few = percentiles_of(call).value();
  EXPECT_EQ(few.samples, 80u);
  EXPECT_EQ(few.p50_s, 1e-3);
  EXPECT_EQ(few.p90_s, 2e-3);
  EXPECT_FALSE(few.p99_s) << "of 80 samples it is their largest";
  call.repetitions[1].samples_s.assign(60, 1e-3);
  EXPECT_EQ(percentiles_of(call)->p99_s, 2e-3);
  call.repetitions[0].flags = {results::flag::kContended};
  EXPECT_EQ(percentiles_of(call)->samples, 60u) << "a disturbed repetition shows the disturbance";
  call.repetitions[0].flags.clear();

  const Analysed one(make_run({job}));
  ASSERT_EQ(one.result.latencies.size(), 1u);
  EXPECT_EQ(one.result.latencies[0].percentiles.p90_s, 1e-3);
  call.batch = 2;
  EXPECT_FALSE(percentiles_of(call)) << "a mean of two calls hides the slow one";
  call.batch = 1;
  call.scope = Scope::kernel;
  EXPECT_FALSE(percentiles_of(call));
  call.scope = Scope::call;
  job.params = {{"rows", int64_t{64}}};
  EXPECT_TRUE(Analysed(make_run({job})).result.latencies.empty());
}

TEST(ReportsAnalysis, OneSampleIsWhatTheOpCallsSo) {
  using Names = std::vector<std::pair<const char*, const char*>>;
  const auto rows = [](const std::string& op, const std::string& name) {
    Job job = make_job(op + "/cpu.tuned/f32/" + name + ":1", {make_series(Scope::call, 1e-3, 0.9, 4)});
    job.params = {{name, int64_t{1}}};
    return Analysed(make_run({job})).result.latencies.size();
  };
  for (const auto& [op, name] : Names{{"gemm", "m"},
                                      {"linear", "n"},
                                      {"conv2d", "n"},
                                      {"max_pool2d", "n"},
                                      {"attention", "B"},
                                      {"lstm", "B"},
                                      {"softmax", "rows"},
                                      {"step/mlp", "batch"},
                                      {"infer/mlp", "batch"}})
    EXPECT_EQ(rows(op, name), 1u) << op;
  for (const auto& [op, name] : Names{{"transpose", "batch"}, {"sum", "rows"}, {"gemm", "n"}, {"relu", "n"}})
    EXPECT_EQ(rows(op, name), 0u) << op;

  Job job = make_job("gemm/cpu.tuned/f32/m:1", {make_series(Scope::call, 1e-6, 0.9, 4)});
  job.params = {{"m", int64_t{1}}};
  job.series[0].batch = 100;
  const Analysed batched(make_run({job}));
  EXPECT_TRUE(batched.result.latencies.empty());
  EXPECT_EQ(batched.result.batched_latencies, 1u) << "its samples are means of 100 calls";
}

TEST(ReportsAnalysis, BreakEven) {
  const auto of = [](std::vector<std::pair<double, double>> times) {
    return break_even(sweep_of(times), &SweepPoint::gpu_call_s);
  };
  const BreakEven crossing = of({{1, 8}, {4, 8}, {16, 8}});  // the CPU is ahead at 4, the GPU at 16
  EXPECT_EQ(crossing.kind, BreakEven::Kind::between);
  EXPECT_EQ(crossing.above, 4);
  EXPECT_EQ(crossing.size, 16);
  EXPECT_EQ(break_even_text(crossing, "n"), "n between 4 and 16");
  const BreakEven first = of({{2, 1}, {1, 2}, {9, 2}});  // the CPU is ahead at the second size alone
  EXPECT_EQ(first.kind, BreakEven::Kind::between);
  EXPECT_EQ(first.above, 4);
  EXPECT_EQ(of({{1, 8}, {4, 8}, {16, 8}, {64, 8}, {256, 8}}).size, 16);
  EXPECT_EQ(of({{1, 2}, {4, 5}}).kind, BreakEven::Kind::never);
  EXPECT_EQ(break_even_text(of({{1, 2}, {4, 5}}), "n"), "never up to n = 4");
  EXPECT_EQ(of({{3, 2}, {6, 5}}).kind, BreakEven::Kind::from_smallest);
  EXPECT_EQ(break_even_text(of({{3, 2}, {6, 5}}), "n"), "from n = 1 on, the smallest measured");
  EXPECT_EQ(of({{3, 2}, {4, 5}}).kind, BreakEven::Kind::never);  // a lead that is lost again
  EXPECT_EQ(break_even(sweep_of({{1, 2}}), &SweepPoint::gpu_end_to_end_s).kind, BreakEven::Kind::unknown);
}

TEST(ReportsAnalysis, StepsAreSumsWithAResidual) {
  const Analysed a({make_step("step/mlp/cpu/f32/batch:8", 1.2, {{"gemm", 1}, {"norm", 0.1}}),
                    make_step("step/other/gpu.graph/f32/batch:8", 2, {{"gemm", 1}, {"norm", 0.1}})});
  ASSERT_EQ(a.result.steps.size(), 2u);
  EXPECT_EQ(a.result.steps[0].label, "CPU");
  EXPECT_NEAR(a.result.steps[0].step_s, 1.2, 1e-12);
  EXPECT_NEAR(a.result.steps[0].residual_s(), 0.1, 1e-12);
  EXPECT_EQ(a.result.steps[0].problem, "");
  EXPECT_EQ(a.result.steps[1].label, "GPU graph");
  EXPECT_EQ(a.result.steps[1].model, "other f32 batch:8");
  EXPECT_NE(a.result.steps[1].problem.find("+45 %"), std::string::npos);

  EXPECT_TRUE(a.result.steps[0].explained);
  EXPECT_FALSE(a.result.steps[1].explained);
  EXPECT_EQ(a.result.warnings.size(), 1u);
  EXPECT_NE(a.result.warnings[0].find("1 of 2 training steps have a residual over 25 %"), std::string::npos);

  std::vector<Job> impossible{make_step("step/mlp/cpu/f32/batch:8", 1.2, {{"gemm", 1.5}})};
  EXPECT_NE(Analysed(impossible).result.steps[0].problem.find("impossible"), std::string::npos);
  results::testing::set_fraction(impossible[0].series[0], 1.2);
  EXPECT_NE(Analysed(impossible).result.steps[0].problem.find("suspect"), std::string::npos);
  EXPECT_TRUE(Analysed({make_missing("step/mlp/cpu/f32/batch:8", Status::failed, "wrong loss")}).result.steps.empty())
      << "a wrong step gets no number";
}

// An inference has its own table and counts as no training step and as no op.
TEST(ReportsAnalysis, InferencesStandApartFromStepsAndOps) {
  Job infer = make_step("infer/mlp/cpu/f32/batch:1", 1, {{"gemm", 0.9}}, {}, 1);
  infer.series[0].batch = 1;
  for (results::Repetition& repetition : infer.series[0].repetitions) repetition.samples_s.assign(40, 1);
  for (int i = 0; i < 3; ++i) infer.series[0].repetitions[0].samples_s[static_cast<size_t>(i)] = 3;
  const std::vector<Job> jobs{infer, make_step("infer/mlp/gpu/f32/batch:1", 0.5, {{"gemm", 0.5}}, {}, 1),
                              make_step("step/mlp/cpu/f32/batch:1", 3, {{"gemm", 3}}, {}, 1)};
  const Analysed a(jobs);
  ASSERT_EQ(a.result.inferences.size(), 2u);
  ASSERT_EQ(a.result.steps.size(), 1u);
  EXPECT_EQ(a.result.inferences[0].label, "CPU");
  EXPECT_EQ(a.result.inferences[0].model, "mlp f32 batch:1");
  EXPECT_EQ(a.result.inferences[0].percentiles.value().p99_s, 3);
  EXPECT_EQ(rows_of(a.result, Kind::op).size(), 0u);
  EXPECT_EQ(rows_of(a.result, Kind::step).size(), 0u) << "a step with one side";
  EXPECT_EQ(rows_of(a.result, Kind::inference).size(), 1u);
  EXPECT_TRUE(a.result.families.empty());
  const Answer said = answer(a.run, a.result);
  EXPECT_EQ(said.headline, "The GPU wins the only inference.");

  const Analysed cpu({infer});
  EXPECT_EQ(answer(cpu.run, cpu.result).headline, "The CPU ran 1 inference.");
}

TEST(ReportsAnalysis, AResidualHasATermWithinPhasesAndOneBeyond) {
  const auto step = [](results::Amounts phases_s) {
    return std::vector<Job>{
        make_step("step/mlp/cpu/f32/batch:8", 2, {{"gemm", 1}, {"norm", 0.1}}, std::move(phases_s))};
  };
  const Analysed a(step({{"forward", 0.5}, {"backward", 0.9}}));
  const StepRow& row = a.result.steps.at(0);
  EXPECT_NEAR(row.within_phases_s(), 0.3, 1e-12);
  EXPECT_NEAR(row.between_phases_s(), 0.6, 1e-12);
  EXPECT_NEAR(row.residual_s(), row.within_phases_s() + row.between_phases_s(), 1e-12);
  EXPECT_TRUE(row.has_phases());
  EXPECT_FALSE(Analysed(step({})).result.steps[0].has_phases());
}

TEST(ReportsAnalysis, AnImpossibleStepIsInNoPair) {
  const Analysed a({make_step("step/mlp/cpu/f32/batch:8", 0.5, {{"gemm", 0.9}}),  // shorter than its nodes
                    make_step("step/mlp/gpu/f32/batch:8", 0.1, {{"gemm", 0.1}})});
  const std::vector<StepPairs> pairs = step_pairs(a.result.steps);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].cpu, nullptr);
  ASSERT_EQ(pairs[0].gpu.size(), 1u);
  EXPECT_FALSE(pairs[0].gpu[0].ratio);
}

TEST(ReportsAnalysis, TheLargestBatchOfAModelIsPrimary) {
  std::vector<Job> jobs;
  for (const int batch : {1, 16, 4})
    jobs.push_back(make_step("step/mlp/cpu/f32/batch:" + std::to_string(batch), 1, {{"gemm", 1}}, {}, batch));
  const Analysed a(jobs);
  ASSERT_EQ(a.result.steps.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a.result.steps[i].job, &a.run.jobs[i]);
    EXPECT_EQ(a.result.steps[i].primary, i == 1);
  }
}

TEST(ReportsAnalysis, WarnsOfWhatWeakensARun) {
  results::Run run = make_run(softmax_pair());
  EXPECT_TRUE(Analysed(run).result.warnings.empty());
  run.invocation.complete = false;
  run.invocation.warnings = {"ceilings drifted"};
  run.build.git_dirty = true;
  run.build.type = "Debug";
  const auto warnings = Analysed(run).result.warnings;
  EXPECT_EQ(warnings, (std::vector<std::string>{"the run is not complete", "built from uncommitted changes",
                                                "build type Debug", "ceilings drifted"}));
}

}  // namespace
}  // namespace duet::reports
