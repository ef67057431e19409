// SPDX-License-Identifier: Apache-2.0
// Bounds of GPUs that were not measured (reports/gpu_bound.h) and their table of figures (gpus.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "reports/format.h"
#include "reports/gpu_bound.h"
#include "reports/render.h"
#include "reports/report.h"
#include "tests/example/example_run.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using namespace results::testing;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;
using Kind = GpuBreakEven::Kind;

constexpr double kLaunch = 2e-6;

// 1 TB/s, 10 TFLOP/s in f32, 20 in f16, 16 GB, L2 of 1 MB, 10 GB/s to the host.
GpuFigures small_gpu() {
  GpuFigures gpu;
  gpu.name = "small";
  gpu.title = "A small GPU";
  gpu.memory_bytes = {16e9, "s"};
  gpu.bandwidth = {1e12, "s"};
  gpu.l2_bytes = {1e6, "s"};
  gpu.pcie = {1e10, "s"};
  gpu.pcie_generation = gpu.pcie_lanes = 1;
  gpu.peaks = {{"f32", {1e13, "s"}}, {"f16", {2e13, "s"}}};
  gpu.no_peak = {{"bf16", "it has no bf16"}};
  return gpu;
}

// A job of the CPU whose interval is +-1 % of time_s.
Job cpu_job(const std::string& name, double time_s, double flops, int64_t bytes) {
  Job job = make_job(name, {make_series(Scope::call, time_s, 0.8, 4)});
  job.flops = flops;
  job.bytes = job.footprint_bytes = bytes;
  return job;
}

GpuBoundRow row_of(Job job) {
  const GpuFigures gpu = small_gpu();
  const results::Run run = make_run({std::move(job)});
  GpuBound bound = gpu_bound(run, gpu, kLaunch);
  EXPECT_EQ(bound.rows.size(), 1u);
  GpuBoundRow row = bound.rows.at(0);
  row.cpu = {};  // points into `run`
  return row;
}

TEST(GpuBound, IsTheRooflinePlusLaunch) {
  // 1e9 bytes: 1 ms of memory, 0.1 s of PCIe. 2e10 FLOP: 2 ms.
  const GpuBoundRow compute = row_of(cpu_job("gemm/cpu.tuned/f32/m:8", 1, 2e10, 1000000000));
  EXPECT_DOUBLE_EQ(compute.resident->time_s, 2e-3 + kLaunch);
  EXPECT_DOUBLE_EQ(compute.with_copies->time_s, 2e-3 + kLaunch + 0.1);
  EXPECT_DOUBLE_EQ(compute.resident->ratio, 1 / (2e-3 + kLaunch));
  EXPECT_STREQ(compute.limit, "compute");
  EXPECT_STREQ(row_of(cpu_job("gemm/cpu.tuned/f16/m:8", 1, 2e10, 2000000000)).limit, "memory")
      << "f16 has its own peak";
  EXPECT_STREQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 1, 8, 64)).limit, "launch");
}

TEST(GpuBound, SaysWhatIsCertain) {
  // Memory-bound, beyond the L2: 1 ms on the GPU.
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 0.9e-3, 1, 1000000000)).resident->outlook, Outlook::cannot);
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 1.1e-3, 1, 1000000000)).resident->outlook, Outlook::might);
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 1.1e-3, 1, 1000000000)).with_copies->outlook, Outlook::cannot);
  // The upper end of the CPU's interval (1 % above) would reach the bound: not certain.
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 0.998e-3, 1, 1000000000)).resident->outlook, Outlook::doubtful);
  // Warm data that fit the L2: bandwidth of memory bounds nothing. 1e6 bytes take 1 us.
  const GpuBoundRow warm = row_of(cpu_job("add/cpu.tuned/f32/n:8", 2.5e-6, 1, 1000000));
  EXPECT_EQ(warm.resident->outlook, Outlook::doubtful);
  EXPECT_DOUBLE_EQ(warm.resident->certain_s, 1e-13 + kLaunch);
  // Above the L2, what it can hold is still not certain: 1.5e6 bytes, of which 1e6 fit.
  EXPECT_DOUBLE_EQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 1, 1, 1500000)).resident->certain_s, 0.5e-6 + kLaunch);
  // Copies in both directions at once, while the kernel runs: 1e9 bytes take 0.1 s one after the other.
  const GpuBoundRow overlapped = row_of(cpu_job("add/cpu.tuned/f32/n:8", 0.07, 1, 1000000000));
  EXPECT_DOUBLE_EQ(overlapped.with_copies->time_s, 0.1 + 1e-3 + kLaunch);
  EXPECT_DOUBLE_EQ(overlapped.with_copies->certain_s, 0.05 + kLaunch);
  EXPECT_EQ(overlapped.with_copies->outlook, Outlook::doubtful);
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 0.04, 1, 1000000000)).with_copies->outlook, Outlook::cannot);
  Job cold = cpu_job("add/cpu.tuned/f32/n:8", 2.5e-6, 1, 1000000);
  cold.series[0].cache = Cache::cold;
  EXPECT_EQ(row_of(std::move(cold)).resident->outlook, Outlook::cannot);
  // The launch alone takes longer.
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/f32/n:8", 1.9e-6, 1, 100)).resident->outlook, Outlook::cannot);
}

// 1e9 operations: 0.1 ms. 2e9 bytes: 2 ms.
Job cpu_step(double time_s) {
  Job step = make_step("step/mlp/cpu/f32/batch:8", time_s, {{"gemm", 0.9 * time_s}});
  step.flops = 1e9;
  step.bytes = step.footprint_bytes = 2000000000;
  return step;
}

TEST(GpuBound, StepsAreCertainByComputeAlone) {
  const GpuBoundRow row = row_of(cpu_step(1e-3));
  EXPECT_DOUBLE_EQ(row.resident->time_s, 2e-3 + kLaunch);
  EXPECT_EQ(row.resident->outlook, Outlook::doubtful) << "fused kernels move fewer bytes than the sum of the nodes";
  EXPECT_FALSE(row.with_copies) << "a run file that does not say what a step copies";
}

TEST(GpuBound, StepsCopyTheirInputsAndTheirLoss) {
  Job step = cpu_step(4e-3);
  step.step->upload_bytes = 5000000;    // 0.5 ms
  step.step->download_bytes = 1000000;  // 0.1 ms
  const GpuBoundRow row = row_of(std::move(step));
  EXPECT_DOUBLE_EQ(row.with_copies->time_s, 2e-3 + 0.6e-3 + kLaunch);
  EXPECT_DOUBLE_EQ(row.with_copies->certain_s, 0.5e-3 + kLaunch) << "the upload takes longer than the arithmetic";
  EXPECT_EQ(row.with_copies->outlook, Outlook::might);
}

TEST(GpuBound, GivesReasonsWhereThereIsNone) {
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/bf16/n:8", 1, 1, 100)).no_bound_reason, "it has no bf16");
  EXPECT_EQ(row_of(cpu_job("add/cpu.tuned/f64/n:8", 1, 1, 100)).no_bound_reason,
            "the sources of small have no figure for f64");
  EXPECT_TRUE(row_of(cpu_job("copy/cpu.tuned/f64/n:8", 1, 0, 100)).resident) << "moving bytes needs no peak";
  EXPECT_THAT(row_of(cpu_job("add/cpu.tuned/f32/n:8", 1, 1, 17000000000)).no_bound_reason,
              HasSubstr("small has 14.9 GiB"));
}

TEST(GpuBound, UsesTheBestComparableCpuJobOnly) {
  std::vector<Job> jobs = {cpu_job("add/cpu.naive/f32/n:8", 2e-3, 1, 1000000000),
                           cpu_job("add/cpu.tuned/f32/n:8", 1.5e-3, 1, 1000000000)};
  Job suspect = make_job("add/cpu.fast/f32/n:8", {make_series(Scope::call, 1e-6, 1.2, 4)});
  jobs.push_back(suspect);
  const GpuFigures gpu = small_gpu();
  const results::Run run = make_run(std::move(jobs));
  const GpuBound bound = gpu_bound(run, gpu, kLaunch);
  ASSERT_EQ(bound.rows.size(), 1u);
  EXPECT_EQ(bound.rows[0].cpu.job->impl, "cpu.tuned");
}

// --- break-even

GpuBreakEvenRow break_even_of(const std::vector<double>& cpu_s) {
  static const GpuFigures gpu = small_gpu();
  std::vector<Job> jobs;
  Sweep sweep{"add", "f32", "n", {}, {}};
  for (size_t i = 0; i < cpu_s.size(); ++i) {
    const int64_t n = int64_t{1} << (2 * i);
    jobs.push_back(cpu_job("add/cpu.tuned/f32/n:" + std::to_string(n), cpu_s[i], 1, n * 10000000));  // n * 10 us
    sweep.points.push_back({n, cpu_s[i], {}, {}, "cpu.tuned", ""});
  }
  results::Run run = make_run(std::move(jobs));
  run.sweeps = {sweep};
  GpuBreakEvenRow row = gpu_bound(run, gpu, kLaunch).break_evens.at(0);
  row.sweep = nullptr;
  return row;
}

TEST(GpuBound, BreakEvenIsAnIntervalBetweenMeasuredSizes) {
  const GpuBreakEvenRow row = break_even_of({5e-6, 20e-6, 500e-6});  // bounds 12, 42, 162 us
  EXPECT_EQ(row.resident.kind, Kind::between);
  EXPECT_EQ(to_text(row.resident, "n"), "possible from n between 4 and 16");
  EXPECT_EQ(row.with_copies.kind, Kind::never);
  EXPECT_EQ(to_text(row.with_copies, "n"), "never (certain up to n 16)");
  EXPECT_EQ(to_text(break_even_of({20e-6, 50e-6}).resident, "n"), "possible from n ≤ 1");
  // A lead that is lost again does not count; a bound missed by less than the interval is not certain.
  EXPECT_EQ(break_even_of({20e-6, 41e-6, 500e-6}).resident.from, 16);
  EXPECT_EQ(break_even_of({5e-6, 41.9e-6}).resident.kind, Kind::doubtful);
}

// --- a run of the GPU beside it

TEST(GpuBound, ShowsHowMuchOfABoundWasReached) {
  std::vector<Job> jobs = softmax_pair();  // call 20 us, end to end 2 ms
  for (Job& job : jobs) {
    job.flops = 1;
    job.bytes = job.footprint_bytes = 8000000;  // 8 us, 800 us to copy
  }
  const GpuFigures gpu = small_gpu();
  const results::Run run = make_run(std::move(jobs));
  const GpuBound bound = gpu_bound(run, gpu, kLaunch, &run);
  const GpuBoundRow& row = bound.rows.at(0);
  EXPECT_EQ(row.measured_impl, "cuda.tuned");
  EXPECT_DOUBLE_EQ(*row.resident->reached, 10e-6 / 20e-6);
  EXPECT_DOUBLE_EQ(*row.with_copies->reached, 810e-6 / 2e-3);
  EXPECT_THAT(gpu_bound_sentence(bound), HasSubstr("A run on a GPU reached 50 % of the bound in the median of 1 case"));
  EXPECT_FALSE(gpu_bound(run, gpu, kLaunch).rows.at(0).resident->reached) << "only where it is given";
}

// Every row of an invented pair of runs, by figures of the table alone.
TEST(GpuBound, EachBoundShowsItsOwnReachedShare) {
  const results::Run cpu = example_run({.gpu = false, .hostile = false}), gpu = example_run({.hostile = false});
  const GpuTable table = built_in_gpus();
  const GpuFigures& h100 = table.find("h100-sxm");
  const std::vector<GpuBound> bounds = {gpu_bound(cpu, h100, table.launch_s, &gpu)};
  const auto shown = [](const GpuTimeBound& bound) {
    return share(*bound.reached) + (*bound.reached > 1 ? " (undercut)" : "");
  };
  const std::string console = gpu_bound_console(cpu, bounds, table);
  const Document page = gpu_bound_document(cpu, bounds, table);
  const std::string markdown = render_markdown(page), html = render_html(page);
  const Json json = Json::parse(gpu_bound_json(cpu, bounds, table));
  size_t reached = 0, with_copies = 0;
  for (const GpuBoundRow& row : bounds[0].rows) {
    // The fastest comparable implementation of the GPU's run, by its call.
    const results::Job* fastest = nullptr;
    double call_s = 0, end_to_end_s = 0;
    for (const Job& job : gpu.jobs) {
      if (job.case_name != row.case_name || job.device != results::Device::gpu || !job.comparable) continue;
      const results::Series* call = results::find_series(job, Scope::call, Cache::warm, 1);
      if (!call || (fastest && call->summary.median_s >= call_s)) continue;
      const results::Series* copied = results::find_series(job, Scope::end_to_end, Cache::warm, 1);
      fastest = &job;
      call_s = call->summary.median_s;
      end_to_end_s = copied ? copied->summary.median_s : 0;
    }
    if (!row.resident) continue;
    SCOPED_TRACE(row.case_name);
    ASSERT_EQ(row.resident->reached.has_value(), fastest != nullptr);
    if (!fastest) continue;
    ++reached;
    EXPECT_EQ(row.measured_impl, fastest->impl);
    EXPECT_DOUBLE_EQ(*row.resident->reached, row.resident->time_s / call_s);
    std::string cells = shown(*row.resident);
    if (row.with_copies && end_to_end_s > 0) {
      ++with_copies;
      ASSERT_TRUE(row.with_copies->reached);
      EXPECT_DOUBLE_EQ(*row.with_copies->reached, row.with_copies->time_s / end_to_end_s);
      cells = shown(*row.with_copies);
    }
    const std::string name = case_text(row.case_name);
    std::string escaped;
    for (const char c : name) escaped += c == '_' ? std::string("\\_") : std::string(1, c);
    const auto line_of = [](const std::string& text, const std::string& begin) {
      const size_t at = text.find(begin + " ");
      return at == text.npos ? "no line" : text.substr(at, text.find('\n', at + 1) - at);
    };
    EXPECT_THAT(line_of(console, "\n" + name), HasSubstr(shown(*row.resident)));
    EXPECT_THAT(line_of(console, "\n" + name), HasSubstr(cells));
    EXPECT_THAT(line_of(markdown, "| " + escaped), HasSubstr(shown(*row.resident)));
    EXPECT_THAT(line_of(markdown, "| " + escaped), HasSubstr(cells));
    EXPECT_THAT(html, HasSubstr(">" + shown(*row.resident) + "<"));
    for (const Json& c : json["gpus"][0]["cases"])
      if (c["case"] == row.case_name) {
        EXPECT_DOUBLE_EQ(c["resident"]["reached"].get<double>(), *row.resident->reached);
        EXPECT_DOUBLE_EQ(c["resident"]["measured_s"].get<double>(), call_s);
      }
  }
  EXPECT_GT(reached, 10u);
  EXPECT_GT(with_copies, 10u);
}

// --- how it is shown

TEST(GpuBound, TextSaysThatItIsABound) {
  const results::Run run = example_run({.gpu = false});
  const GpuTable table = built_in_gpus();
  const std::vector<GpuBound> bounds = {gpu_bound(run, table.find("l4"), table.launch_s),
                                        gpu_bound(run, table.find("h100-sxm"), table.launch_s)};
  const std::string console = gpu_bound_console(run, bounds, table);
  EXPECT_THAT(console, HasSubstr("Upper bounds of the speedup, not measurements"));
  EXPECT_THAT(console, HasSubstr("NVIDIA L4 (l4): with its data on the GPU it might help in "));
  EXPECT_THAT(console, HasSubstr("it certainly cannot"));
  EXPECT_THAT(console, Not(HasSubstr("nan")));
  const Json json = Json::parse(gpu_bound_json(run, bounds, table));
  EXPECT_THAT(json["what"].get<std::string>(), HasSubstr("not measurements"));
  ASSERT_EQ(json["gpus"].size(), 2u);
  EXPECT_EQ(json["gpus"][1]["name"], "h100-sxm");
  EXPECT_DOUBLE_EQ(json["gpus"][1]["figures"]["bandwidth_byte_per_s"]["value"], 3.35e12);
  EXPECT_EQ(json["gpus"][0]["cases"].size(), bounds[0].rows.size());
  const std::string html = render_html(gpu_bound_document(run, bounds, table));
  EXPECT_THAT(html, HasSubstr("url(#bound-gpu_bound_h100-sxm)"));
  EXPECT_THAT(html, HasSubstr("Upper bounds, not measurements"));
  EXPECT_THAT(html, Not(HasSubstr("https:"))) << "a page loads nothing; the JSON has the addresses";
  EXPECT_THAT(html, HasSubstr("NVIDIA L4 Tensor Core GPU data sheet"));
  EXPECT_EQ(count_in(html, "<svg role=\"img\""), 2u);
}

TEST(GpuBound, ReportShowsItOnlyWithoutAGpu) {
  for (const bool gpu : {false, true}) {
    const Scratch scratch;
    write_report(scratch.write("run.json", results::run_text(example_run({.gpu = gpu}))),
                 (scratch / "report").string());
    const std::string html = read(scratch / "report/report.html");
    EXPECT_EQ(html.find("What could a GPU buy?") != std::string::npos, !gpu);
    EXPECT_EQ(fs::exists(scratch / "report/gpu_bound_l4.svg"), !gpu);
    // Rows of measured pairs stay as they are: no bound enters them.
    EXPECT_EQ(read(scratch / "report/report.csv").find("bound_s"), std::string::npos);
  }
}

// --- the table of figures

std::string problem_of(const std::string& text) {
  try {
    parse_gpus(text, "g.json");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

Json table_json() {
  const Json source{{"value", 1}, {"source", "s"}};
  return {{"launch", {{"us", 2}, {"definition", "d"}, {"source", "s"}}},
          {"pcie_GB_per_s_per_lane", {{"4", source}}},
          {"sources", {{"s", "a data sheet"}}},
          {"gpus",
           {{{"name", "a-1"},
             {"title", "A"},
             {"device_names", {"NVIDIA A"}},
             {"memory_GB", source},
             {"bandwidth_GB_per_s", source},
             {"l2_mib", source},
             {"pcie", {{"generation", 4}, {"lanes", 16}, {"source", "s"}}},
             {"peaks", {{"f32", source}}}}}}};
}

TEST(GpuTable, ReadsTheUsersGpus) {
  const GpuTable table = parse_gpus(table_json().dump(), "g.json");
  EXPECT_DOUBLE_EQ(table.launch_s, 2e-6);
  EXPECT_DOUBLE_EQ(table.find("a-1").pcie.value, 16e9);
  EXPECT_DOUBLE_EQ(table.find("a-1").peak("f32")->value, 1e12);
  EXPECT_EQ(table.with_device("NVIDIA A")->name, "a-1");
  EXPECT_EQ(table.with_device("NVIDIA B"), nullptr);
}

TEST(GpuTable, RefusesWhatIsWrongByFileMemberAndValue) {
  const auto with = [](const char* pointer, const Json& value) {
    Json json = table_json();
    json[Json::json_pointer(pointer)] = value;
    return problem_of(json.dump());
  };
  EXPECT_EQ(problem_of(table_json().dump()), "accepted");
  EXPECT_THAT(problem_of("{\"gpus\": ["), HasSubstr("g.json: not JSON"));
  EXPECT_EQ(problem_of("{}"), "g.json: member 'launch' is missing");
  EXPECT_EQ(problem_of("[]"), "g.json: array is not an object");
  EXPECT_EQ(problem_of("{\"gpus\": 1, \"gpus\": 2}"), "g.json: member 'gpus' occurs twice in one object");
  EXPECT_EQ(with("/gpus/0/memory_GB/value", -1), "g.json: gpus[0].memory_GB.value: -1 is not a number above 0");
  EXPECT_EQ(with("/gpus/0/bandwidth_GB_per_s/value", "fast"),
            "g.json: gpus[0].bandwidth_GB_per_s.value: \"fast\" is not a number");
  EXPECT_EQ(with("/gpus/0/peaks/f32/source", "rumour"),
            "g.json: gpus[0].peaks.f32.source: 'rumour' is not one of the sources of this file");
  EXPECT_THAT(with("/gpus/0/peaks", {{"f99", {{"value", 1}, {"source", "s"}}}}),
              HasSubstr("'f99' is not one of f64 f32"));
  EXPECT_THAT(with("/gpus/0/name", "<b>"), HasSubstr("is not made of a-z, 0-9 and hyphens"));
  EXPECT_THAT(with("/gpus/0/pcie/generation", 3), HasSubstr("3 has no rate in pcie_GB_per_s_per_lane"));
  EXPECT_THAT(with("/launch/us", -2), HasSubstr("launch.us: -2 is not a number of at least 0"));
  EXPECT_THAT(with("/gpus", Json::array()), HasSubstr("no GPU in it"));
  EXPECT_THAT(with("/gpus/1", table_json()["gpus"][0]), HasSubstr("gpus[1].name: 'a-1' occurs twice"));
}

TEST(GpuTable, BuiltInFiguresAreSourcedAndPlausible) {
  const GpuTable table = built_in_gpus();
  EXPECT_GE(table.gpus.size(), 10u);
  for (const GpuFigures& gpu : table.gpus) {
    EXPECT_GT(gpu.bandwidth.value, 1e11) << gpu.name;
    EXPECT_LT(gpu.bandwidth.value, 1e13) << gpu.name;
    EXPECT_GT(gpu.memory_bytes.value, 1e10) << gpu.name;
    EXPECT_GT(gpu.pcie.value, 1.5e10) << gpu.name;
    EXPECT_LT(gpu.pcie.value, 1.3e11) << gpu.name;
    ASSERT_TRUE(gpu.peak("f32")) << gpu.name;
    for (const auto& [dtype, peak] : gpu.peaks) {
      EXPECT_FALSE(peak.source.empty());
      EXPECT_GT(peak.value, 1e12) << gpu.name << " " << dtype;
      EXPECT_LT(peak.value, 1e16) << gpu.name << " " << dtype;
      EXPECT_TRUE(dtype == "f64" || peak.value >= gpu.peak("f32")->value) << gpu.name << " " << dtype;
    }
  }
  try {
    table.find("h100");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("GPU 'h100' is not one of t4 v100-sxm2 a10"));
  }
}

}  // namespace
}  // namespace duet::reports
