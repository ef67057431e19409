// SPDX-License-Identifier: Apache-2.0
// Which cases make a curve over a size, whose times stand in it, and what a report reads from it. No number here is a
// measurement.
#include "bench/sweeps.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/analysis.h"
#include "reports/report.h"
#include "tests/reports/fixture.h"

namespace duet::bench {
namespace {

using Json = nlohmann::ordered_json;
using reports::testing::make_document;
using reports::testing::make_series;

struct Times {
  double call_s, end_to_end_s = 0;
};

// A job on the side that its implementation says.
Json job(const std::string& op, const std::string& impl, Json params, Times times, const std::string& dtype = "f32") {
  std::string label = dtype;
  for (const auto& [name, value] : params.items()) label += "/" + name + ":" + value.dump();
  const bool gpu = impl.starts_with("gpu") || impl.starts_with("cuda");
  Json made = reports::testing::make_job(op.substr(op.find('/') + 1) + "/" + impl + "/" + label,
                                         {make_series("call", times.call_s, 0.5)});
  if (times.end_to_end_s > 0) made["series"].push_back(make_series("end_to_end", times.end_to_end_s, 0.5));
  made["name"] = op + "/" + impl + "/" + label;
  made["op"] = op;
  made["case"] = op + "/" + label;
  made["device"] = gpu ? "gpu" : "cpu";
  made["params"] = std::move(params);
  return made;
}

// A step over its batch: 1 ms a sample on the CPU; a call of 8 ms on the GPU, or 64 ms with its copies.
std::vector<Json> lenet_jobs(bool with_gpu) {
  std::vector<Json> jobs;
  for (const int batch : {64, 1, 16, 4}) {
    jobs.push_back(job("step/lenet", "cpu", {{"batch", batch}}, {1e-3 * batch}));
    if (with_gpu) jobs.push_back(job("step/lenet", "gpu", {{"batch", batch}}, {8e-3, 64e-3}));
  }
  return jobs;
}

std::vector<double> column(const Json& sweep, const char* name) {
  std::vector<double> values;
  for (const Json& point : sweep["points"]) values.push_back(point[name].is_null() ? -1 : point[name].get<double>());
  return values;
}
using Column = std::vector<double>;

TEST(Sweeps, AStepOverItsBatchInAscendingOrder) {
  const Json sweeps = sweeps_of(lenet_jobs(true));
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0]["op"], "step/lenet");
  EXPECT_EQ(sweeps[0]["dtype"], "f32");
  EXPECT_EQ(sweeps[0]["size_name"], "batch");
  EXPECT_EQ(column(sweeps[0], "size"), (Column{1, 4, 16, 64}));
  EXPECT_EQ(column(sweeps[0], "cpu_s"), (Column{1e-3, 4e-3, 16e-3, 64e-3}));
  EXPECT_EQ(column(sweeps[0], "gpu_call_s"), (Column{8e-3, 8e-3, 8e-3, 8e-3}));
  EXPECT_EQ(column(sweeps[0], "gpu_end_to_end_s"), (Column{64e-3, 64e-3, 64e-3, 64e-3}));
}

TEST(Sweeps, TwoSizesMakeNoCurve) {
  std::vector<Json> jobs = lenet_jobs(true);
  jobs.resize(4);
  EXPECT_TRUE(sweeps_of(jobs).empty());
  EXPECT_TRUE(sweeps_of({}).empty());
}

TEST(Sweeps, ExactlyOneSizeDiffers) {
  std::vector<Json> jobs;
  for (const int rows : {1, 10, 100}) {
    jobs.push_back(job("softmax", "cpu.tuned", {{"rows", rows}, {"cols", 1000}}, {1e-6 * rows}));
    jobs.push_back(job("softmax", "cpu.tuned", {{"rows", rows}, {"cols", 1000}}, {1e-6 * rows}, "bf16"));
  }
  jobs.push_back(job("softmax", "cpu.tuned", {{"rows", 7}, {"cols", 50}}, {1e-6}));                   // another width
  jobs.push_back(job("softmax", "cpu.tuned", {{"rows", 9}, {"cols", 1000}, {"log", true}}, {1e-6}));  // another option
  jobs.push_back(job("max", "cpu.tuned", {{"rows", 11}, {"cols", 1000}}, {1e-6}));  // another operation
  const Json sweeps = sweeps_of(jobs);
  ASSERT_EQ(sweeps.size(), 2u) << sweeps.dump(1);
  EXPECT_EQ(sweeps[0]["dtype"], "f32");
  EXPECT_EQ(sweeps[1]["dtype"], "bf16");
  for (const Json& sweep : sweeps) {
    EXPECT_EQ(sweep["size_name"], "rows");
    EXPECT_EQ(sweep["fixed"], (Json{{"cols", 1000}}));
    EXPECT_EQ(column(sweep, "size"), (Column{1, 10, 100}));
  }
}

TEST(Sweeps, SquaresVaryTogether) {
  std::vector<Json> jobs;
  for (const int n : {256, 512, 1024})
    jobs.push_back(job("gemm", "cpu.tuned", {{"m", n}, {"n", n}, {"k", n}}, {1e-9 * n}));
  jobs.push_back(job("gemm", "cpu.tuned", {{"m", 64}, {"n", 64}, {"k", 4096}}, {1e-3}));
  const Json sweeps = sweeps_of(jobs);
  ASSERT_EQ(sweeps.size(), 1u) << sweeps.dump(1);
  EXPECT_EQ(sweeps[0]["size_name"], "m=n=k");
  EXPECT_EQ(column(sweeps[0], "size"), (Column{256, 512, 1024}));
}

TEST(Sweeps, TheFastestJobThatCountsStandsForItsSide) {
  std::vector<Json> jobs = lenet_jobs(true);
  const auto with = [&](Json more) {
    std::vector<Json> all = jobs;
    all.push_back(std::move(more));
    return sweeps_of(all)[0]["points"][0];
  };
  const Json graph = job("step/lenet", "gpu.graph", {{"batch", 1}}, {2e-3, 70e-3});
  EXPECT_EQ(with(graph)["gpu_call_s"], 2e-3);
  EXPECT_EQ(with(graph)["gpu_end_to_end_s"], 70e-3) << "of the same job";
  EXPECT_EQ(with(graph)["gpu_impl"], "gpu.graph");
  for (const char* fault : {"suspect", "failed", "skipped", "unchecked"}) {
    Json bad = graph;
    if (fault == std::string("suspect"))
      bad["series"][1]["flags"] = {"suspect"};
    else if (fault == std::string("unchecked"))
      bad["check"] = nullptr;
    else {
      bad["status"] = fault;
      bad["reason"] = "no";
      bad["series"] = Json::array();
    }
    EXPECT_EQ(with(bad)["gpu_call_s"], 8e-3) << fault;
    EXPECT_EQ(with(bad)["gpu_impl"], "gpu") << fault;
  }
  Json cold = job("step/lenet", "cpu", {{"batch", 2}}, {1e-3});
  cold["series"].push_back(make_series("call", 1e-4, 0.5, 1, "cold"));
  jobs.push_back(cold);
  EXPECT_EQ(column(sweeps_of(jobs)[0], "cpu_s")[1], 1e-3) << "warm stands beside warm";
}

TEST(Sweeps, ASideWithoutAResultIsNull) {
  const Json sweeps = sweeps_of(lenet_jobs(false));
  ASSERT_EQ(sweeps.size(), 1u);
  for (const Json& point : sweeps[0]["points"]) {
    EXPECT_TRUE(point["gpu_call_s"].is_null() && point["gpu_end_to_end_s"].is_null() && point["gpu_impl"].is_null());
    EXPECT_EQ(point["cpu_impl"], "cpu");
  }
}

// --- from the jobs of a run to the words of its report ---------------------------------------------------------------

std::string html_of(const std::vector<Json>& jobs) {
  Json document = make_document(jobs);
  document["duet"]["sweeps"] = sweeps_of(jobs);
  const reports::testing::Scratch scratch;
  reports::write_report(scratch.write("run.json", document), (scratch / "out").string());
  return reports::testing::read(scratch / "out/report.html");
}

TEST(Sweeps, AReportReadsTheBreakEvenFromThem) {
  const std::string html = html_of(lenet_jobs(true));
  EXPECT_NE(html.find("<h2>Break-even</h2>"), std::string::npos);
  EXPECT_NE(html.find("break-even resident: batch ≈ 8, with copies: batch ≈ 64"), std::string::npos);
  EXPECT_NE(html.find("batch 16: CPU 16.0 ms, 1.00 ms a sample (cpu)"), std::string::npos);
  EXPECT_NE(html.find("batch 16: GPU call 8.00 ms, 500 µs a sample (gpu)"), std::string::npos);
  EXPECT_EQ(html.find("No GPU in this run"), std::string::npos);
}

TEST(Sweeps, WithoutAGpuAReportShowsTheCpusCurveAndSaysSo) {
  const std::string html = html_of(lenet_jobs(false));
  EXPECT_NE(html.find("No GPU in this run"), std::string::npos);
  EXPECT_NE(html.find("batch 16: CPU 16.0 ms, 1.00 ms a sample (cpu)"), std::string::npos);
  EXPECT_EQ(html.find("break-even resident"), std::string::npos);
  EXPECT_EQ(html.find("GPU call"), std::string::npos) << "no legend of what is not there";
}

}  // namespace
}  // namespace duet::bench
