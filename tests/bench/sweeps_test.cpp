// SPDX-License-Identifier: Apache-2.0
// Which cases make a curve over a size, whose times stand in it, and what a report reads from it. No number here is a
// measurement.
#include "bench/sweeps.h"

#include <gtest/gtest.h>

#include "reports/report.h"
#include "results/facts.h"
#include "tests/results/fixture.h"

namespace duet::bench {
namespace {

using results::Job;
using results::Params;
using results::Scope;
using results::Status;
using results::Sweep;
using results::testing::make_series;

struct Times {
  double call_s, end_to_end_s = 0;
};

// A job on the side that its implementation says.
Job job(const std::string& op, const std::string& impl, Params params, Times times, const std::string& dtype = "f32") {
  std::string label = dtype;
  for (const auto& [name, value] : params) label += "/" + name + ":" + results::text_of(value);
  Job made = results::testing::make_job(op + "/" + impl + "/" + label, {make_series(Scope::call, times.call_s, 0.5)});
  if (times.end_to_end_s > 0) {
    made.series.push_back(make_series(Scope::end_to_end, times.end_to_end_s, 0.5));
    made.series.back().roof.reset();
  }
  made.params = std::move(params);
  return made;
}
Params over(const char* name, int64_t size) { return {{name, size}}; }

// A step over its batch: 1 ms a sample on the CPU; a call of 8 ms on the GPU, or 64 ms with its copies.
std::vector<Job> lenet_jobs(bool with_gpu) {
  std::vector<Job> jobs;
  for (const int batch : {64, 1, 16, 4}) {
    jobs.push_back(job("step/lenet", "cpu", over("batch", batch), {1e-3 * batch}));
    if (with_gpu) jobs.push_back(job("step/lenet", "gpu", over("batch", batch), {8e-3, 64e-3}));
  }
  return jobs;
}

using Column = std::vector<double>;
constexpr double kNone = -1;

template <class T>
Column column(const Sweep& sweep, T results::SweepPoint::*member) {
  Column values;
  for (const auto& point : sweep.points) {
    if constexpr (std::is_same_v<T, int64_t>)
      values.push_back(static_cast<double>(point.*member));
    else
      values.push_back((point.*member).value_or(kNone));
  }
  return values;
}
using results::SweepPoint;

TEST(Sweeps, AStepOverItsBatchInAscendingOrder) {
  const std::vector<Sweep> sweeps = sweeps_of(lenet_jobs(true));
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0].op, "step/lenet");
  EXPECT_EQ(sweeps[0].dtype, "f32");
  EXPECT_EQ(sweeps[0].size_name, "batch");
  EXPECT_EQ(column(sweeps[0], &SweepPoint::size), (Column{1, 4, 16, 64}));
  EXPECT_EQ(column(sweeps[0], &SweepPoint::cpu_s), (Column{1e-3, 4e-3, 16e-3, 64e-3}));
  EXPECT_EQ(column(sweeps[0], &SweepPoint::gpu_call_s), (Column{8e-3, 8e-3, 8e-3, 8e-3}));
  EXPECT_EQ(column(sweeps[0], &SweepPoint::gpu_end_to_end_s), (Column{64e-3, 64e-3, 64e-3, 64e-3}));
}

TEST(Sweeps, TwoSizesMakeNoCurve) {
  std::vector<Job> jobs = lenet_jobs(true);
  jobs.resize(4);
  EXPECT_TRUE(sweeps_of(jobs).empty());
  EXPECT_TRUE(sweeps_of({}).empty());
}

TEST(Sweeps, ExactlyOneSizeDiffers) {
  std::vector<Job> jobs;
  for (const int rows : {1, 10, 100}) {
    jobs.push_back(job("softmax", "cpu.tuned", {{"rows", int64_t{rows}}, {"cols", int64_t{1000}}}, {1e-6 * rows}));
    jobs.push_back(
        job("softmax", "cpu.tuned", {{"rows", int64_t{rows}}, {"cols", int64_t{1000}}}, {1e-6 * rows}, "bf16"));
  }
  jobs.push_back(job("softmax", "cpu.tuned", {{"rows", int64_t{7}}, {"cols", int64_t{50}}}, {1e-6}));  // another width
  jobs.push_back(job("softmax", "cpu.tuned", {{"rows", int64_t{9}}, {"cols", int64_t{1000}}, {"log", true}},
                     {1e-6}));                                                                        // another option
  jobs.push_back(job("max", "cpu.tuned", {{"rows", int64_t{11}}, {"cols", int64_t{1000}}}, {1e-6}));  // another op
  const std::vector<Sweep> sweeps = sweeps_of(jobs);
  ASSERT_EQ(sweeps.size(), 2u);
  EXPECT_EQ(sweeps[0].dtype, "f32");
  EXPECT_EQ(sweeps[1].dtype, "bf16");
  for (const Sweep& sweep : sweeps) {
    EXPECT_EQ(sweep.size_name, "rows");
    EXPECT_EQ(sweep.fixed, (Params{{"cols", int64_t{1000}}}));
    EXPECT_EQ(column(sweep, &SweepPoint::size), (Column{1, 10, 100}));
  }
}

TEST(Sweeps, SquaresVaryTogether) {
  std::vector<Job> jobs;
  for (const int n : {256, 512, 1024})
    jobs.push_back(job("gemm", "cpu.tuned", {{"m", int64_t{n}}, {"n", int64_t{n}}, {"k", int64_t{n}}}, {1e-9 * n}));
  jobs.push_back(job("gemm", "cpu.tuned", {{"m", int64_t{64}}, {"n", int64_t{64}}, {"k", int64_t{4096}}}, {1e-3}));
  const std::vector<Sweep> sweeps = sweeps_of(jobs);
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0].size_name, "m=n=k");
  EXPECT_EQ(column(sweeps[0], &SweepPoint::size), (Column{256, 512, 1024}));
}

TEST(Sweeps, TheFastestJobThatCountsStandsForItsSide) {
  std::vector<Job> jobs = lenet_jobs(true);
  const auto with = [&](Job more) {
    std::vector<Job> all = jobs;
    all.push_back(std::move(more));
    return sweeps_of(all)[0].points[0];
  };
  const Job graph = job("step/lenet", "gpu.graph", over("batch", 1), {2e-3, 70e-3});
  EXPECT_EQ(with(graph).gpu_call_s, 2e-3);
  EXPECT_EQ(with(graph).gpu_end_to_end_s, 70e-3) << "of the same job";
  EXPECT_EQ(with(graph).gpu_impl, "gpu.graph");
  Job suspect = graph, wrong = graph, unchecked = graph, failed = graph;
  results::testing::set_fraction(suspect.series[0], 1.1);
  wrong.check->max_error_ratio = 1.5;
  unchecked.check.reset();
  failed.status = Status::failed;
  failed.reason = "no";
  failed.series.clear();
  for (Job* bad : {&suspect, &wrong, &unchecked, &failed}) {
    results::testing::decide(*bad);
    EXPECT_EQ(with(*bad).gpu_call_s, 8e-3) << bad->reason;
    EXPECT_EQ(with(*bad).gpu_impl, "gpu") << bad->reason;
  }
  Job cold = job("step/lenet", "cpu", over("batch", 2), {1e-3});
  cold.series.push_back(make_series(Scope::call, 1e-4, 0.5, 1, results::Cache::cold));
  jobs.push_back(cold);
  EXPECT_EQ(column(sweeps_of(jobs)[0], &SweepPoint::cpu_s)[1], 1e-3) << "warm stands beside warm";
}

TEST(Sweeps, WhereASweepWasDesignedItsSizesAloneCount) {
  std::vector<Job> jobs = lenet_jobs(false);
  for (const int64_t batch : {3, 5, 7}) {
    jobs.push_back(job("step/lenet", "cpu", over("batch", batch), {1e-3}));
    jobs.back().why = "sweep over batch";
    jobs.push_back(job("step/mlp", "cpu", over("batch", batch), {1e-3}));
  }
  const std::vector<Sweep> sweeps = sweeps_of(jobs);
  ASSERT_EQ(sweeps.size(), 2u);
  ASSERT_EQ(sweeps[0].points.size(), 3u);
  EXPECT_EQ(sweeps[0].points[0].size, 3);
  EXPECT_EQ(sweeps[1].op, "step/mlp") << "an op without a designed sweep keeps what there is";
}

// What varies is what the design says, also where another parameter happens to have the same size.
TEST(Sweeps, ADesignedSweepKeepsThePointWhereAnotherSizeIsEqual) {
  std::vector<Job> jobs;
  for (const int64_t t : {16, 32, 64, 128}) {
    jobs.push_back(
        job("attention", "cpu.tuned", {{"B", int64_t{1}}, {"Tq", t}, {"Tk", t}, {"D", int64_t{64}}}, {1e-6}));
    jobs.back().why = "sweep over Tq Tk";
  }
  const std::vector<Sweep> sweeps = sweeps_of(jobs);
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0].size_name, "Tq=Tk");
  EXPECT_EQ(column(sweeps[0], &SweepPoint::size), (Column{16, 32, 64, 128}));
  EXPECT_EQ(sweeps[0].fixed, (Params{{"B", int64_t{1}}, {"D", int64_t{64}}}));
}

TEST(Sweeps, ASideWithoutAResultIsNull) {
  const std::vector<Sweep> sweeps = sweeps_of(lenet_jobs(false));
  ASSERT_EQ(sweeps.size(), 1u);
  for (const SweepPoint& point : sweeps[0].points) {
    EXPECT_TRUE(!point.gpu_call_s && !point.gpu_end_to_end_s && point.gpu_impl.empty());
    EXPECT_EQ(point.cpu_impl, "cpu");
  }
}

// --- from the jobs of a run to the words of its report ---------------------------------------------------------------

std::string html_of(const std::vector<Job>& jobs) {
  results::Run run = results::testing::make_run(jobs);
  run.sweeps = sweeps_of(jobs);
  const results::testing::Scratch scratch;
  reports::write_report(scratch.write("run.json", results::run_text(run)), (scratch / "out").string());
  return results::testing::read(scratch / "out/report.html");
}

TEST(Sweeps, AReportReadsTheBreakEvenFromThem) {
  const std::string html = html_of(lenet_jobs(true));
  EXPECT_NE(html.find(">Break-even</h2>"), std::string::npos);
  EXPECT_NE(html.find(">resident: batch between 4 and 16<"), std::string::npos);
  EXPECT_NE(html.find(">with copies: batch between 16 and 64<"), std::string::npos);
  EXPECT_NE(html.find("batch 16: CPU 16.0 ms, 1.00 ms a sample (cpu)"), std::string::npos);
  EXPECT_NE(html.find("batch 16: GPU call 8.00 ms, 500 µs a sample (gpu)"), std::string::npos);
  EXPECT_EQ(html.find("No GPU in this run"), std::string::npos);
}

TEST(Sweeps, WithoutAGpuAReportShowsTheCpusCurveAndSaysSo) {
  const std::string html = html_of(lenet_jobs(false));
  EXPECT_NE(html.find("No GPU in this run"), std::string::npos);
  EXPECT_NE(html.find("batch 16: CPU 16.0 ms, 1.00 ms a sample (cpu)"), std::string::npos);
  EXPECT_EQ(html.find(">resident: "), std::string::npos);
  EXPECT_EQ(html.find("GPU call"), std::string::npos) << "no legend of what is not there";
}

}  // namespace
}  // namespace duet::bench
