// SPDX-License-Identifier: Apache-2.0
// What may be compared with what, and the numbers that come out.
#include <gtest/gtest.h>

#include "reports/analysis.h"
#include "tests/reports/fixture.h"

namespace duet::reports::testing {
namespace {

constexpr size_t kKernel = 0, kCall = 1, kEndToEnd = 2;

// Keeps the run alive beside the analysis that points into it.
struct Analysed {
  explicit Analysed(const Json& document) : run(load(document)), result(analyse(run)) {}
  explicit Analysed(std::vector<Json> jobs) : Analysed(make_document(std::move(jobs))) {}
  Run run;
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
  jobs.push_back(make_job("softmax/cpu.onednn/f32/rows:64", {make_series("call", 5e-4, 0.9, 4)}));
  EXPECT_EQ(Analysed(jobs).result.speedups[0].cpu.job->impl, "cpu.onednn");
  jobs[2]["check"] = nullptr;
  EXPECT_EQ(Analysed(jobs).result.speedups[0].cpu.job->impl, "cpu.tuned");
  jobs[2]["check"] = {{"max_error_ratio", 1.5}, {"slices", 3}};
  EXPECT_EQ(Analysed(jobs).result.speedups[0].cpu.job->impl, "cpu.tuned");
  jobs[2]["check"] = {{"max_error_ratio", 0.0}, {"slices", 0}};
  const Analysed nothing_compared(jobs);
  EXPECT_EQ(nothing_compared.result.speedups[0].cpu.job->impl, "cpu.tuned");
  ASSERT_TRUE(find_group(nothing_compared.result, "excluded"));
  EXPECT_EQ(find_group(nothing_compared.result, "excluded")->jobs[0], "softmax/cpu.onednn/f32/rows:64");
}

TEST(ReportsAnalysis, OneThreadIsTheCpuSideWhereItIsFaster) {
  auto jobs = softmax_pair();
  jobs[0]["series"][1] = make_series("call", 4e-4, 0.9, 1);
  EXPECT_EQ(Analysed(jobs).result.speedups[0].cpu.call->threads, 1);
}

TEST(ReportsAnalysis, SuspectJobsStandInNoRatio) {
  auto jobs = softmax_pair();
  jobs[0]["series"][0]["roof"]["fraction"] = 1.04;  // 4 threads; the one-thread row alone looks fine
  const Analysed a(jobs);
  EXPECT_TRUE(a.result.speedups.empty());
  EXPECT_EQ(a.result.suspect_jobs, 1u);
  ASSERT_TRUE(find_group(a.result, "suspect"));
  EXPECT_NE(find_group(a.result, "suspect")->reason.find("104 % of its roof"), std::string::npos);
  ASSERT_EQ(a.result.one_sided.size(), 1u);
  EXPECT_EQ(a.result.one_sided[0].device, Device::gpu);
  EXPECT_NE(a.result.one_sided[0].missing.find("104 % of its roof"), std::string::npos);

  jobs[0]["series"][0]["roof"]["fraction"] = 1.03;
  EXPECT_EQ(Analysed(jobs).result.speedups.size(), 1u);
  jobs[1]["series"][0]["flags"] = {"suspect"};
  EXPECT_TRUE(Analysed(jobs).result.speedups.empty());
}

TEST(ReportsAnalysis, ASuspectFasterJobMakesARatioContested) {
  auto jobs = softmax_pair();
  jobs.push_back(make_job("softmax/cpu.onednn/f32/rows:64", {make_series("call", 5e-4, 1.3, 4)}));
  EXPECT_TRUE(Analysed(jobs).result.speedups.at(0).contested);
  jobs[2] = make_job("softmax/cpu.onednn/f32/rows:64", {make_series("call", 5e-3, 1.3, 4)});
  EXPECT_FALSE(Analysed(jobs).result.speedups.at(0).contested);
}

TEST(ReportsAnalysis, AFloorSeriesIsNotJudgedByItsRoof) {
  auto jobs = softmax_pair();
  jobs[1]["series"][0]["roof"]["fraction"] = 1.5;
  jobs[1]["series"][0]["flags"] = {"floor"};
  EXPECT_EQ(Analysed(jobs).result.speedups.size(), 1u);
}

TEST(ReportsAnalysis, JudgesAreRefused) {
  for (const std::string impl : {"reference", "cpu.reference", "cpu.reference", "simt.naive"}) {
    auto jobs = softmax_pair();
    jobs[0] = make_job("softmax/" + impl + "/f32/rows:64", {make_series("call", 1, 0.9, 4)});
    const Analysed a(jobs);
    EXPECT_TRUE(a.result.speedups.empty()) << impl;
    ASSERT_TRUE(find_group(a.result, "excluded")) << impl;
    EXPECT_NE(find_group(a.result, "excluded")->reason.find("judge"), std::string::npos);
  }
}

TEST(ReportsAnalysis, AWeakCpuIsMarked) {
  auto jobs = softmax_pair();
  jobs[0]["series"][0]["roof"]["fraction"] = 0.4;
  EXPECT_FALSE(Analysed(jobs).result.speedups[0].weak_cpu);
  jobs[0]["series"][0]["roof"]["fraction"] = 0.39;
  EXPECT_TRUE(Analysed(jobs).result.speedups[0].weak_cpu);
  jobs[0]["series"][0]["roof"]["fraction"] = 0.9;
  jobs[0]["series"][0]["flags"] = {"weak_cpu"};
  EXPECT_TRUE(Analysed(jobs).result.speedups[0].weak_cpu);
  jobs[0]["series"][0]["roof"] = nullptr;
  jobs[0]["series"][0]["flags"] = Json::array();
  EXPECT_FALSE(Analysed(jobs).result.speedups[0].weak_cpu);
}

TEST(ReportsAnalysis, MediansPreferUndisturbedRepetitions) {
  auto jobs = softmax_pair();
  auto& repetitions = jobs[0]["series"][0]["repetitions"];
  for (const int i : {0, 1}) {
    repetitions[i]["samples_s"] = {1.0};
    repetitions[i]["flags"] = {"contended"};
  }
  repetitions[2]["flags"] = {"retried"};
  const Analysed a(jobs);
  EXPECT_NEAR(a.result.speedups[0].ratio[kCall]->value, 50, 1);
  EXPECT_EQ(repetition_medians(a.run.jobs[0].series[0]).size(), 3u);
  EXPECT_EQ(a.result.disturbed_repetitions, 2u);
  repetitions[3]["flags"] = {"clock"};  // two clean ones are too few to show any spread: all count
  EXPECT_EQ(repetition_medians(load(make_document(jobs)).jobs[0].series[0]).size(), 5u);
}

TEST(ReportsAnalysis, CacheStatesAreComparedWithTheirLike) {
  auto jobs = softmax_pair();
  jobs[0]["series"].push_back(make_series("call", 2e-3, 0.5, 4, "cold"));
  jobs[1]["series"].push_back(make_series("call", 1e-4, 0.5, 1, "cold"));
  const Analysed both(jobs);
  ASSERT_EQ(both.result.speedups.size(), 2u);
  EXPECT_EQ(both.result.speedups[0].cpu.call->cache, Cache::warm);
  EXPECT_TRUE(both.result.speedups[0].primary);
  EXPECT_EQ(both.result.speedups[1].gpu.call->cache, Cache::cold);
  EXPECT_NEAR(both.result.speedups[1].ratio[kCall]->value, 20, 1);
  EXPECT_FALSE(both.result.speedups[1].ratio[kKernel]);
  EXPECT_FALSE(both.result.speedups[1].primary);

  auto far_beyond_cache = softmax_pair();  // only cold was run on the CPU: its states coincide
  far_beyond_cache[0]["series"] = {make_series("call", 1e-3, 0.8, 4, "cold")};
  EXPECT_EQ(Analysed(far_beyond_cache).result.speedups.size(), 1u);
  far_beyond_cache[0]["series"] = {make_series("call", 1e-3, 0.8, 4, "rotating")};
  const Analysed unlike(far_beyond_cache);
  EXPECT_TRUE(unlike.result.speedups.empty());
  EXPECT_EQ(unlike.result.one_sided.size(), 2u);
}

TEST(ReportsAnalysis, RanksByCallAndTotalsFamilies) {
  auto jobs = softmax_pair();
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series("call", 4e-3, 0.8, 4)}));
  jobs.push_back(make_job("relu/cuda.tuned/f32/n:8", {make_series("call", 2e-5, 0.8)}));
  const Analysed a(jobs);
  ASSERT_EQ(a.result.speedups.size(), 2u);
  EXPECT_EQ(a.result.speedups[0].case_name, "relu/f32/n:8");
  ASSERT_EQ(a.result.families.size(), 1u);
  EXPECT_NEAR(a.result.families[0].geometric_mean, 100, 1);  // of 50 and 200
  EXPECT_NEAR(a.result.families[0].cpu_s, 5e-3, 1e-9);
}

TEST(ReportsAnalysis, WithoutAGpuItSaysWhy) {
  auto jobs = softmax_pair();
  jobs[1] = make_missing("softmax/cuda.tuned/f32/rows:64", "skipped", "built without CUDA");
  const Analysed a(jobs);
  EXPECT_FALSE(a.result.gpu_measured);
  EXPECT_EQ(a.result.no_gpu_reason, "built without CUDA");
  ASSERT_EQ(a.result.one_sided.size(), 1u);
  EXPECT_EQ(a.result.one_sided[0].missing, "built without CUDA");
  jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series("call", 1e-6, 0.5, 4)}));  // no GPU job beside it
  EXPECT_EQ(Analysed(jobs).result.one_sided.at(1).missing, "built without CUDA");
  Json none = make_document({softmax_pair()[0]});
  none["duet"]["machine"]["gpu"] = nullptr;
  EXPECT_EQ(Analysed(none).result.no_gpu_reason, "no GPU on this machine");
  none["duet"]["run"]["no_gpu"] = "no NVIDIA driver";
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
  double size = 1;
  for (const auto& [cpu, gpu] : cpu_gpu) {
    sweep.points.push_back({size, cpu, gpu, {}});
    size *= 4;
  }
  return sweep;
}

TEST(ReportsAnalysis, BreakEven) {
  const auto of = [](std::vector<std::pair<double, double>> times) {
    return break_even(sweep_of(times), &SweepPoint::gpu_call_s);
  };
  const BreakEven crossing =
      of({{1, 8}, {4, 8}, {16, 8}});  // ln 2 behind at 4, ln 2 ahead at 16: half way on logarithms
  EXPECT_EQ(crossing.kind, BreakEven::Kind::at);
  EXPECT_NEAR(crossing.size, 8, 1e-9);
  EXPECT_NEAR(of({{1, 8}, {4, 8}, {16, 8}, {64, 8}, {256, 8}}).size, 8, 1e-9);
  EXPECT_EQ(of({{1, 2}, {4, 5}}).kind, BreakEven::Kind::never);
  EXPECT_EQ(of({{3, 2}, {6, 5}}).kind, BreakEven::Kind::from_smallest);
  EXPECT_EQ(of({{3, 2}, {4, 5}}).kind, BreakEven::Kind::never);  // a lead that is lost again
  const BreakEven second = of({{2, 1}, {1, 2}, {2, 1}});
  EXPECT_EQ(second.kind, BreakEven::Kind::at);
  EXPECT_NEAR(second.size, 8, 1e-9);
  EXPECT_EQ(break_even(sweep_of({{1, 2}}), &SweepPoint::gpu_end_to_end_s).kind, BreakEven::Kind::unknown);
}

Json step_of(const std::string& job, double part_s, double residual_s) {
  return {{"job", job},
          {"phases_s", Json::object()},
          {"parts_s", {{"gemm", part_s}, {"norm", 0.1 * part_s}}},
          {"residual_s", residual_s},
          {"memory_peak", nullptr},
          {"implementations", Json::object()}};
}

TEST(ReportsAnalysis, StepsAreSumsWithAResidual) {
  Json document = make_document({make_job("step/mlp/cpu/f32/batch:8", {make_series("call", 1.2, 0.5, 4)})});
  document["duet"]["jobs"][0]["device"] = "cpu";
  document["duet"]["steps"] = {step_of("step/mlp/cpu/f32/batch:8", 1, 0),
                               step_of("step/other/gpu.graph/f32/batch:8", 1, 0.9)};
  const Analysed a(document);
  ASSERT_EQ(a.result.steps.size(), 2u);
  EXPECT_EQ(a.result.steps[0].label, "CPU");
  EXPECT_NEAR(a.result.steps[0].step_s, 1.2, 1e-12);  // the measured call
  EXPECT_NEAR(a.result.steps[0].residual_s(), 0.1, 1e-12);
  EXPECT_EQ(a.result.steps[0].problem, "");
  EXPECT_EQ(a.result.steps[1].label, "GPU graph");
  EXPECT_EQ(a.result.steps[1].model, "other f32 batch:8");
  EXPECT_EQ(a.result.steps[1].device, Device::gpu);
  EXPECT_NEAR(a.result.steps[1].step_s, 2, 1e-12);  // no job: sum and residual
  EXPECT_NE(a.result.steps[1].problem.find("+45 %"), std::string::npos);

  EXPECT_TRUE(a.result.steps[0].explained);
  EXPECT_FALSE(a.result.steps[1].explained);
  EXPECT_EQ(a.result.warnings.size(), 1u);
  EXPECT_NE(a.result.warnings[0].find("1 of 2 training steps have a residual over 25 %"), std::string::npos);

  document["duet"]["steps"] = {step_of("step/mlp/cpu/f32/batch:8", 1.5, 0)};
  EXPECT_NE(Analysed(document).result.steps[0].problem.find("impossible"), std::string::npos);
  document["duet"]["jobs"][0]["series"][0]["roof"]["fraction"] = 1.2;
  EXPECT_NE(Analysed(document).result.steps[0].problem.find("suspect"), std::string::npos);
  document["duet"]["jobs"] = {make_missing("step/mlp/cpu/f32/batch:8", "failed", "wrong loss")};
  EXPECT_TRUE(Analysed(document).result.steps.empty());  // a wrong step gets no number
}

TEST(ReportsAnalysis, AResidualHasATermWithinPhasesAndOneBeyond) {
  Json document = make_document({});
  document["duet"]["steps"] = {step_of("step/mlp/cpu/f32/batch:8", 1, 0.9)};  // 2 s, of which ops 1.1 s
  document["duet"]["steps"][0]["phases_s"] = {{"forward", 0.5}, {"backward", 0.9}};
  const Analysed a(document);
  const StepRow& row = a.result.steps.at(0);
  EXPECT_NEAR(row.within_phases_s(), 0.3, 1e-12);
  EXPECT_NEAR(row.between_phases_s(), 0.6, 1e-12);
  EXPECT_NEAR(row.residual_s(), row.within_phases_s() + row.between_phases_s(), 1e-12);
  EXPECT_TRUE(row.has_phases());
  document["duet"]["steps"][0]["phases_s"] = Json::object();
  EXPECT_FALSE(Analysed(document).result.steps[0].has_phases());
}

TEST(ReportsAnalysis, StepsStandInTheOrderOfTheJobsAndTheLargestBatchIsPrimary) {
  std::vector<Json> jobs;
  Json steps = Json::array();
  for (const int batch : {1, 16, 4}) {
    jobs.push_back(make_job("mlp/cpu/f32/batch:" + std::to_string(batch), {make_series("call", 1, 0.5, 4)}));
    jobs.back()["name"] = "step/mlp/cpu/f32/batch:" + std::to_string(batch);
    Json step = step_of(jobs.back()["name"], 1, 0);
    step["samples"] = batch;
    steps.insert(steps.begin(), step);
  }
  Json document = make_document(jobs);
  document["duet"]["steps"] = steps;
  const Analysed a(document);
  ASSERT_EQ(a.result.steps.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a.result.steps[i].job, &a.run.jobs[i]);
    EXPECT_EQ(a.result.steps[i].primary, i == 1);
  }
}

TEST(ReportsAnalysis, WarnsOfWhatWeakensARun) {
  Json document = make_document(softmax_pair());
  EXPECT_TRUE(Analysed(document).result.warnings.empty());
  document["duet"]["run"]["complete"] = false;
  document["duet"]["run"]["warnings"] = {"ceilings drifted"};
  document["duet"]["build"]["git_dirty"] = true;
  document["duet"]["build"]["type"] = "Debug";
  const auto warnings = Analysed(document).result.warnings;
  EXPECT_EQ(warnings, (std::vector<std::string>{"the run is not complete", "built from uncommitted changes",
                                                "build type Debug", "ceilings drifted"}));
}

}  // namespace
}  // namespace duet::reports::testing
