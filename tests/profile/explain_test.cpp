// SPDX-License-Identifier: Apache-2.0
#include "cli/explain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "core/error.h"
#include "reports/format.h"
#include "results/rules.h"
#include "tests/example/example_run.h"
#include "tests/results/fixture.h"

namespace duet {
namespace {

using results::testing::example_run;
using testing::HasSubstr;
using testing::Not;

// Words wrap: for searches, line breaks are blanks.
std::string flat(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

TEST(Explain, SaysWhatBoundsBothSidesAndWhatWouldChangeTheVerdict) {
  const results::Run run = example_run({.cases = 0, .gpu = true, .hostile = false});
  const std::string large = flat(explanation(run, "^relu/cuda.tuned/f32/n:67108864$"));
  EXPECT_THAT(large, HasSubstr("Call: the GPU is"));
  EXPECT_THAT(large, HasSubstr("CPU: cpu.tuned on 16 threads takes"));
  EXPECT_THAT(large, testing::ContainsRegex("memory bounds it: [a-z.]+ at [0-9.]+ [GT]B/s allows"));
  EXPECT_THAT(large, HasSubstr("If both were at their roofs"));
  EXPECT_THAT(large, HasSubstr("Copies decide: the GPU wins once"));
  EXPECT_THAT(large, HasSubstr("only less traffic makes it faster"));
  EXPECT_THAT(large, HasSubstr("In bf16 the GPU takes"));
  EXPECT_THAT(large, HasSubstr("implementation"));

  const std::string small = flat(explanation(run, "^relu/cuda.tuned/f32/n:1024$"));
  EXPECT_THAT(small, HasSubstr("Call: the CPU is"));
  EXPECT_THAT(small, HasSubstr("launch and wait are the other"));
  EXPECT_THAT(small, HasSubstr("neither memory nor arithmetic bounds it"));
  EXPECT_THAT(small, Not(HasSubstr("0.00"))) << "an interval of the CPU's factor, not of its inverse";
  EXPECT_THAT(small, Not(HasSubstr("Copies decide")));
}

TEST(Explain, SaysWhatTheMarkOfAPreparedRowMeans) {
  results::Run run = example_run({.cases = 0, .gpu = true, .hostile = false});
  const std::string what = "^relu/.*/f32/n:1024$";
  EXPECT_THAT(explanation(run, what), Not(HasSubstr(reports::kPreparedMark)));
  for (results::Job& job : run.jobs)
    if (job.name == "relu/cpu.tuned/f32/n:1024")
      job.plan.emplace().algorithm = std::string(results::kBeforeTheClock) + "w";
  const std::string text = explanation(run, what);
  EXPECT_THAT(text, HasSubstr(std::string("cpu.tuned") + reports::kPreparedMark));
  EXPECT_THAT(text, testing::EndsWith(fmt::format("{} {}\n", reports::kPreparedMark, reports::kPreparedNote)));
}

TEST(Explain, SetsMeasuredTrafficAndEnergyBesideTheModel) {
  results::Run run = example_run({.cases = 0, .gpu = true, .hostile = false});
  const std::string what = "^relu/cuda.tuned/f32/n:67108864$";
  EXPECT_THAT(flat(explanation(run, what)), Not(HasSubstr("Measured,")));
  for (results::Job& job : run.jobs) {
    const bool cpu = job.device == results::Device::cpu;
    const auto bytes = static_cast<double>(job.bytes);
    if (job.status == results::Status::ok)
      job.counters = results::testing::make_counters((cpu ? 1.5 : 0.5) * bytes, 0.5,
                                                     cpu ? std::optional<double>() : std::optional(0.25));
  }
  const std::string text = flat(explanation(run, what));
  EXPECT_THAT(text,
              HasSubstr("Measured, an application on the CPU moves 805 MB (warm), 1.50× of the compulsory 537 MB, "
                        "at 80.5 GB/s; 268 MB more is moved than has to be (by "));
  EXPECT_THAT(text, HasSubstr("An application on the CPU takes 500 mJ at 50.0 W (CPU)."));
  EXPECT_THAT(text, HasSubstr("0.50× of the compulsory 537 MB, at 26.8 GB/s; caches keep the rest from one application "
                              "to the next, or it is not counted (by "));
  EXPECT_THAT(text, HasSubstr("An application on the GPU takes 750 mJ at 75.0 W (GPU + CPU)."));
}

TEST(Explain, TakesAJobByItsName) {
  const results::Run run = example_run({.cases = 0, .gpu = true, .hostile = false});
  const results::Job& job = run.jobs.front();
  const std::string text = explanation(run, job.name);
  EXPECT_EQ(text.find("\n\n\n"), text.npos);
  EXPECT_THAT(text, HasSubstr(job.why));
  EXPECT_EQ(text.find("implementation"), text.rfind("implementation")) << "one case, one table";
}

TEST(Explain, WithoutAGpuItBoundsOneByItsDataSheet) {
  const results::Run run = example_run({.cases = 0, .gpu = false, .hostile = false});
  const std::string text = flat(explanation(run, "^gemm/cpu.openblas/f32/m:8192"));
  EXPECT_THAT(text, HasSubstr("The GPU has no result"));
  EXPECT_THAT(text, HasSubstr("By its data sheet, the NVIDIA H100"));
  EXPECT_THAT(text, testing::ContainsRegex("One thread (is as fast|takes)"));
}

TEST(Explain, ExplainsStepsByPhasesAndOps) {
  const results::Run run = example_run({.cases = 0, .gpu = true, .hostile = false});
  const std::string text = flat(explanation(run, "^step/"));
  EXPECT_THAT(text, HasSubstr("Of the step's time on the CPU:"));
  EXPECT_THAT(text, HasSubstr("Its longest ops, timed one by one:"));
}

TEST(Explain, EveryCaseOfARunCanBeExplained) {
  for (const bool gpu : {true, false}) {
    const results::Run run = example_run({.cases = 300, .gpu = gpu, .hostile = true});
    const std::string text = explanation(run, ".");
    EXPECT_THAT(text, Not(HasSubstr("nan")));
    EXPECT_THAT(text, Not(HasSubstr("inf ")));
  }
}

TEST(Explain, WhatMatchesNothingIsAnError) {
  const results::Run run = example_run({.cases = 0, .gpu = true, .hostile = false});
  EXPECT_THROW(explanation(run, "no_such_job"), Error);
  EXPECT_THROW(explanation(run, "("), Error);
}

}  // namespace
}  // namespace duet
