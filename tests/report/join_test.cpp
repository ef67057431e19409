// SPDX-License-Identifier: Apache-2.0
// Several run files as one report: what stands beside what, and which files are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "reports/analysis.h"
#include "reports/answer.h"
#include "reports/format.h"
#include "reports/join.h"
#include "reports/report.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

namespace fs = std::filesystem;
using results::testing::count_in;
using results::testing::decide;
using results::testing::make_job;
using results::testing::make_run;
using results::testing::make_series;
using results::testing::make_step;
using results::testing::read;
using results::testing::Scratch;
using results::testing::softmax_pair;
using testing::ElementsAre;
using testing::HasSubstr;

results::Run run_of(const std::string& file, const std::string& machine, std::vector<Job> jobs) {
  results::Run run = make_run(std::move(jobs));
  run.file = file;
  run.invocation.id = file;
  run.machine.fingerprint = machine;
  return run;
}
results::Run cpu_box() {
  results::Run run = run_of("out/cpu_box.json", "a", {softmax_pair()[0]});
  run.machine.gpu.reset();
  run.sweeps = {{"gelu", "f32", "n", {}, {{16, 1e-6, {}, {}, "cpu.tuned", ""}, {64, 4e-6, {}, {}, "cpu.tuned", ""}}}};
  return run;
}
results::Run gpu_box(bool with_cpu) {
  std::vector<Job> jobs = softmax_pair();
  if (!with_cpu) jobs.erase(jobs.begin());
  results::Run run = run_of("out/gpu_box.json", "b", std::move(jobs));
  run.sweeps = {{"gelu", "f32", "n", {}, {{16, {}, 2e-6, {}, "", "cuda.tuned"}, {64, {}, 2e-6, {}, "", "cuda.tuned"}}}};
  if (with_cpu)
    for (auto& point : run.sweeps[0].points) point.cpu_s = 1e-3;
  return run;
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(ReportsJoin, TheCpuOfOneMachineStandsBesideTheGpuOfAnother) {
  const results::Run run = join({cpu_box(), gpu_box(false)});
  const Analysis a = analyse(run);
  ASSERT_EQ(a.speedups.size(), 1u);
  EXPECT_TRUE(a.speedups[0].across_machines);
  EXPECT_TRUE(a.speedups[0].primary);
  EXPECT_NEAR(a.speedups[0].call_ratio(), 50, 0.5);
  EXPECT_EQ(impl_text(*a.speedups[0].cpu.job), "cpu.tuned @ cpu_box");
  EXPECT_EQ(impl_text(*a.speedups[0].gpu.job), "cuda.tuned @ gpu_box");
  EXPECT_THAT(a.warnings, testing::Contains(HasSubstr("1 of 1 speedups are across machines")));
  ASSERT_EQ(a.break_evens.size(), 1u) << "one curve, not one for each side";
  EXPECT_EQ(a.break_evens[0].sweep->points[0].cpu_impl, "cpu.tuned @ cpu_box");
  EXPECT_EQ(a.break_evens[0].resident.kind, BreakEven::Kind::between);
  EXPECT_EQ(a.break_evens[0].resident.size, 64);
  ASSERT_EQ(a.rooflines.size(), 2u);
  EXPECT_EQ(a.rooflines[0].machine, "cpu_box");
  EXPECT_EQ(a.rooflines[1].machine, "gpu_box");
  ASSERT_TRUE(a.rooflines[1].bandwidth);
  EXPECT_TRUE(a.rooflines[1].bandwidth->name.ends_with(" @ gpu_box")) << a.rooflines[1].bandwidth->name;
}

TEST(ReportsJoin, WhatBothMachinesMeasuredIsKeptOfBoth) {
  results::Run box = gpu_box(true);
  const results::Run run = join({cpu_box(), box});
  const Analysis a = analyse(run);
  ASSERT_EQ(a.speedups.size(), 2u);
  size_t primary = 0;
  for (const SpeedupRow& row : a.speedups) {
    EXPECT_EQ(row.primary, !row.across_machines) << "both sides of one machine come first";
    primary += row.primary;
  }
  EXPECT_EQ(primary, 1u);
  EXPECT_EQ(a.families.at(0).cases, 1u) << "a case counts once";
  EXPECT_EQ(a.bandwidth.at(0).bars.size(), 3u) << "CPU of both, GPU of one";
  EXPECT_EQ(a.break_evens.size(), 2u);
}

TEST(ReportsJoin, OneMachineMeasuredTwiceIsOneMachine) {
  results::Run again = gpu_box(true);
  again.file = "out/again.json";
  again.invocation.id = "again";
  again.jobs.push_back(make_job("relu/cpu.tuned/f32/n:8", {make_series(Scope::call, 1e-6, 0.8, 4)}));
  const results::Run run = join({gpu_box(true), again});
  ASSERT_EQ(run.jobs.size(), 5u);
  EXPECT_EQ(run.jobs[0].machine, "gpu_box");
  EXPECT_EQ(run.jobs[2].machine, "gpu_box (again in again)") << "measured twice: both are kept";
  EXPECT_EQ(run.jobs[4].machine, "gpu_box") << "measured once, whichever file it is in";
  EXPECT_EQ(count_in(run.invocation.warnings.at(1), "the same machine as gpu_box"), 1u);
  EXPECT_EQ(join({gpu_box(true)}).jobs[0].machine, "") << "one run is left as it is";

  const Analysis a = analyse(run);
  ASSERT_EQ(a.speedups.size(), 1u);
  EXPECT_FALSE(a.speedups[0].across_machines);
  ASSERT_EQ(a.rooflines.size(), 2u) << "one for each device, not for each file";
  for (const Roofline& roofline : a.rooflines) {
    EXPECT_EQ(roofline.machine, "gpu_box");
    EXPECT_TRUE(roofline.bandwidth);
    EXPECT_FALSE(roofline.compute.empty());
  }
  EXPECT_EQ(a.break_evens.size(), 2u) << "each file has both sides: nothing is crossed";
}

TEST(ReportsJoin, TheSidesOfOneMachineMayBeMeasuredOneAfterTheOther) {
  results::Run cpu = cpu_box(), gpu = gpu_box(false);
  gpu.machine.fingerprint = cpu.machine.fingerprint;
  const auto of_device = [](results::Run& run, const char* device) {
    std::erase_if(run.ceilings, [&](const Ceiling& ceiling) { return ceiling.device != device; });
  };
  of_device(cpu, "cpu");
  of_device(gpu, "gpu");
  const results::Run run = join({cpu, gpu});
  const Analysis a = analyse(run);
  ASSERT_EQ(a.speedups.size(), 1u);
  EXPECT_FALSE(a.speedups[0].across_machines);
  ASSERT_EQ(a.break_evens.size(), 1u) << "one curve of both sides";
  EXPECT_EQ(a.break_evens[0].resident.kind, BreakEven::Kind::between);
  ASSERT_EQ(a.rooflines.size(), 2u);
  EXPECT_TRUE(a.rooflines[1].bandwidth) << "the second file's ceilings of the GPU";
}

TEST(ReportsJoin, AMachineIsToldByItsHostAndItsGpuToo) {
  const auto machines = [](const auto& change) {
    results::Run a = gpu_box(true), b = gpu_box(true);
    b.file = "out/b.json";
    b.invocation.id = "b";
    change(b);
    return join({a, b}).jobs[2].machine;
  };
  EXPECT_EQ(machines([](results::Run&) {}), "gpu_box (again in b)");
  EXPECT_EQ(machines([](results::Run& run) { run.context.host_name = "another"; }), "b");
  EXPECT_EQ(machines([](results::Run& run) { run.machine.gpu->name = "another GPU"; }), "b");
  EXPECT_EQ(machines([](results::Run& run) { run.machine.fingerprint = "c"; }), "b");
  EXPECT_EQ(machines([](results::Run& run) { run.machine.gpu.reset(); }), "gpu_box (again in b)");
}

TEST(ReportsJoin, OfMachinesWithoutAGpuEachHasItsRow) {
  results::Run a = cpu_box(), b = cpu_box();
  b.file = "out/other.json";
  b.invocation.id = "other";
  b.machine.fingerprint = "other";
  const results::Run run = join({a, b});
  const Analysis analysis = analyse(run);
  ASSERT_EQ(analysis.one_sided.size(), 2u);
  EXPECT_EQ(impl_text(*analysis.one_sided[0].choice.job), "cpu.tuned @ cpu_box");
  EXPECT_EQ(impl_text(*analysis.one_sided[1].choice.job), "cpu.tuned @ other");
  EXPECT_THAT(answer(run, analysis).headline, HasSubstr("in the median of 2 results of 1 case."));

  for (results::Run* box : {&a, &b}) {
    box->jobs[0].params = {{"rows", int64_t{1}}};
    for (results::Series& series : box->jobs[0].series) series.batch = 1;
  }
  EXPECT_EQ(analyse(join({a, b})).latencies.size(), 2u);
}

TEST(ReportsJoin, AFailedJobKeepsItsCommand) {
  results::Run cpu = cpu_box(), gpu = gpu_box(true);
  cpu.jobs.push_back(results::testing::make_missing("relu/cpu.tuned/f32/n:8", results::Status::failed, "killed"));
  gpu.jobs.push_back(results::testing::make_missing("relu/cpu.tuned/f32/n:8", results::Status::failed, "killed"));
  cpu.jobs.back().repro = "bench_all --here";
  gpu.jobs.back().repro = "bench_all --there";
  const Scratch scratch;
  write_report(std::vector<std::string>{scratch.write("cpu.json", results::run_text(cpu)),
                                        scratch.write("gpu.json", results::run_text(gpu))},
               (scratch / "out").string());
  for (const char* file : {"out/report.html", "out/report.md", "out/summary.md"})
    for (const char* command : {"bench_all --here", "bench_all --there"})
      EXPECT_NE(read(scratch / file).find(command), std::string::npos) << file << ": " << command;
}

TEST(ReportsJoin, ThePageNamesEveryMachineAndSaysThatRatiosAreAcross) {
  results::Run cpu = cpu_box(), gpu = gpu_box(false);
  cpu.machine.cpu.name = "a first CPU";
  gpu.machine.cpu.name = "a second CPU";
  gpu.machine.kernel = "the kernel of the second";
  const Scratch scratch;
  write_report(std::vector<std::string>{scratch.write("cpu.json", results::run_text(cpu)),
                                        scratch.write("gpu.json", results::run_text(gpu))},
               (scratch / "out").string());
  const std::string html = read(scratch / "out/report.html");
  const std::string head = html.substr(0, html.find("<main>"));
  EXPECT_THAT(head, HasSubstr("cpu: a first CPU, 4 cores · no GPU"));
  EXPECT_THAT(head, HasSubstr("gpu: a second CPU, 4 cores · a GPU"));
  EXPECT_THAT(head, HasSubstr("The only ratio is across machines"));
  EXPECT_THAT(html, HasSubstr("the kernel of the second")) << "an environment for each file";
  EXPECT_THAT(html, HasSubstr("<code>softmax/cpu.tuned/f32/rows:64 @ cpu</code>")) << "in the table of all series";
}

TEST(ReportsJoin, FilesOfOneNameAreToldApartByTheirFolders) {
  results::Run a = cpu_box(), b = gpu_box(false);
  a.file = "/runs/epyc/result.json";
  b.file = "/runs/h100/result.json";
  const results::Run run = join({a, b});
  EXPECT_EQ(run.jobs[0].machine, "epyc/result");
  EXPECT_EQ(run.jobs[1].machine, "h100/result");
}

TEST(ReportsJoin, AStepOfEachMachineIsLabelled) {
  const auto step = [](const char* side) {
    return make_step(std::string("step/mlp/") + side + "/f32/batch:8", 1.2, {{"gemm", 1}});
  };
  const results::Run run = join({run_of("a.json", "a", {step("cpu")}), run_of("b.json", "b", {step("gpu")})});
  const std::vector<StepRow> rows = step_rows(run, Kind::step);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].label, "CPU @ a");
  EXPECT_EQ(rows[1].label, "GPU @ b");
  EXPECT_EQ(rows[0].model, rows[1].model);
  EXPECT_EQ(step_pairs(rows).size(), 1u) << "the GPU of one beside the CPU of the other";
}

TEST(ReportsJoin, AStepStandsBesideTheCpuOfItsOwnMachine) {
  const auto step = [](const char* side, double step_s) {
    return make_step(std::string("step/mlp/") + side + "/f32/batch:8", step_s, {{"gemm", step_s}});
  };
  const results::Run run =
      join({run_of("fast.json", "a", {step("cpu", 1)}), run_of("box.json", "b", {step("cpu", 4), step("gpu", 0.1)})});
  const std::vector<StepRow> rows = step_rows(run, Kind::step);
  const std::vector<StepPairs> pairs = step_pairs(rows);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].machine, "fast");
  EXPECT_TRUE(pairs[0].gpu.empty());
  EXPECT_EQ(pairs[1].machine, "box");
  ASSERT_EQ(pairs[1].gpu.size(), 1u);
  EXPECT_NEAR(pairs[1].gpu[0].ratio->value, 40, 0.5) << "not the faster CPU of another machine";
}

TEST(ReportsJoin, RefusesRunsThatMeanDifferentThings) {
  const auto with = [](const auto& change) {
    results::Run run = gpu_box(false);
    change(run);
    return error_of([&] { join({cpu_box(), run}); });
  };
  EXPECT_EQ(with([](results::Run&) {}), "no error");
  EXPECT_THAT(with([](results::Run& run) { run.invocation.id = "out/cpu_box.json"; }),
              HasSubstr("out/gpu_box.json: is the run of out/cpu_box.json again"));
  EXPECT_THAT(with([](results::Run& run) { run.file = "out/../out/./cpu_box.json"; }),
              HasSubstr("is the file out/cpu_box.json again"));
  EXPECT_THAT(with([](results::Run& run) { run.jobs[0].flops += 1; }),
              testing::AllOf(HasSubstr("out/gpu_box.json: case softmax/f32/rows:64 has flops"),
                             HasSubstr("in out/cpu_box.json"), HasSubstr("one version of bench_all")));
  EXPECT_THAT(with([](results::Run& run) { run.jobs[0].bytes += 1; }), HasSubstr("has bytes"));
  EXPECT_THAT(with([](results::Run& run) { run.jobs[0].params.emplace_back("eps", 0.5); }), HasSubstr("eps:0.5"));
  EXPECT_THAT(with([](results::Run& run) { run.jobs[0].formula = "y = 0"; }), HasSubstr("has formula 'y = 0'"));
  EXPECT_THAT(with([](results::Run& run) { run.ceilings.at(0).unit = "s"; }), HasSubstr("is in s, and in "));
}

// --- the files themselves: a message with the file's name, and the old report as it was

TEST(ReportsJoin, ABadFileLeavesTheOldReport) {
  const Scratch scratch;
  const std::string good = scratch.write("good.json", results::run_text(cpu_box()));
  const std::string out = (scratch / "out").string();
  write_report(good, out);
  const std::string before = read(scratch / "out/report.html");
  const std::string whole = results::run_text(gpu_box(true));
  const auto edited = [&](const std::string& what, const std::string& with) {
    std::string text = whole;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    if (at != std::string::npos) text.replace(at, what.size(), with);
    return text;
  };
  const std::string name = "softmax/cuda.tuned/f32/rows:64", other = "softmax/cpu.tuned/f32/rows:64";
  const std::string median = "\"median_s\": ";
  const size_t begin = whole.find(median) + median.size();
  const std::string value = whole.substr(begin, whole.find(',', begin) - begin);
  const std::pair<const char*, std::string> bad[] = {
      {"cut", whole.substr(0, whole.size() / 2)},
      {"empty", ""},
      {"foreign", R"({"benchmarks": [], "context": {}})"},
      {"list", "[1, 2]"},
      {"newer", edited("\"schema\": 3", "\"schema\": 4")},
      {"twice", edited("\"name\": \"" + name + "\"", "\"name\": \"" + other + "\"")},
      {"nan", edited(median + value, median + "NaN")},
      {"negative", edited(median + value, median + "-" + value)},
      {"zero", edited(median + value, median + "0")},
      {"text", edited(median + value, median + "\"" + value + " ms\"")},
      {"huge", edited(median + value, median + "1e400")},
      {"unit", edited("\"unit\": \"B/s\"", "\"unit\": \"MiB/s\"")},
  };
  for (const auto& [kind, text] : bad) {
    const std::string path = scratch.write(std::string("bad_") + kind + ".json", text);
    for (const auto& files : {std::vector<std::string>{path}, std::vector<std::string>{good, path}}) {
      const std::string message = error_of([&] { write_report(files, out); });
      EXPECT_THAT(message, HasSubstr(std::string("bad_") + kind + ".json")) << kind;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
    EXPECT_EQ(read(scratch / "out/report.html"), before) << kind;
  }
  EXPECT_EQ(error_of([&] {
              write_report(std::vector<std::string>{good, scratch.write("b.json", whole)}, out);
            }),
            "no error");
  EXPECT_NE(read(scratch / "out/report.html"), before);
  EXPECT_NE(read(scratch / "out/report.html").find("cuda.tuned @ b"), std::string::npos);
  EXPECT_NE(read(scratch / "out/report.csv").find(",cuda.tuned,b,gpu,"), std::string::npos);
}

}  // namespace
}  // namespace duet::reports
