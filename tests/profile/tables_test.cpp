// SPDX-License-Identifier: Apache-2.0
// The readers of profilers' output on fixtures of the documented formats (fixtures/README.md), and their summaries.
#include "cli/profile_tables.h"

#include <gmock/gmock.h>

#include "cli/profile.h"
#include "core/error.h"

namespace duet::profile {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string fixture(const std::string& name) {
  return read_text(std::string(DUET_SOURCE_DIR) + "/tests/profile/fixtures/" + name);
}

TEST(NsysTables, RangesHaveTheirDomainTimeAndOperations) {
  const auto ranges = parse_nsys_ranges(fixture("nvtx_gpu_proj_sum.csv"), "f");
  ASSERT_EQ(ranges.size(), 4U);
  EXPECT_EQ(ranges[1].domain, "duet");
  EXPECT_EQ(ranges[1].name, "step");
  EXPECT_EQ(ranges[1].instances, 10);
  EXPECT_DOUBLE_EQ(ranges[1].gpu_s, 2.3e-3);
  EXPECT_DOUBLE_EQ(ranges[1].host_s, 1.4e-3);
  EXPECT_EQ(ranges[1].operations, 120);
  EXPECT_EQ(ranges[3].domain, "") << "of a library, in the default domain";
}

TEST(NsysTables, KernelsAreSortedAndKeepCommasInTheirNames) {
  const auto kernels = parse_nsys_kernels(fixture("cuda_gpu_kern_sum.csv"), "f");
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "sm90_xmma_gemm_f32f32_tn");
  EXPECT_EQ(kernels[1].name, "void duet::cuda::softmax_kernel<(int)256, float>(const T2 *, T2 *, long)");
  EXPECT_EQ(kernels[1].instances, 20);
}

TEST(NsysTables, GapsAreWhereNoStreamWorks) {
  const Gaps gaps = parse_nsys_gaps(fixture("cuda_gpu_trace.csv"), "f");
  EXPECT_EQ(gaps.operations, 4);
  EXPECT_EQ(gaps.gaps, 1) << "from 8500 to 9000; the copy and the first kernel touch, and `beside` overlaps";
  EXPECT_DOUBLE_EQ(gaps.span_s, 9e-6);
  EXPECT_DOUBLE_EQ(gaps.busy_s, 8.5e-6);
  EXPECT_DOUBLE_EQ(gaps.longest_s, 0.5e-6);
  EXPECT_EQ(gaps.longest_before, "kernel(float, int)");
}

TEST(NsysTables, TheSummaryNamesTheLimiter) {
  NsysTables tables{.ranges = parse_nsys_ranges(fixture("nvtx_gpu_proj_sum.csv"), "f"),
                    .kernels = parse_nsys_kernels(fixture("cuda_gpu_kern_sum.csv"), "f"),
                    .copies = parse_nsys_copies(fixture("cuda_gpu_mem_time_sum.csv"), "f"),
                    .gaps = parse_nsys_gaps(fixture("cuda_gpu_trace.csv"), "f")};
  const std::string text = nsys_summary(tables);
  EXPECT_THAT(text, HasSubstr("top limiter: sm90_xmma_gemm_f32f32_tn, 75 %"));
  EXPECT_THAT(text, HasSubstr("forward"));
  EXPECT_THAT(text, Not(HasSubstr("cublasSgemm"))) << "no range of ours";
  EXPECT_THAT(text, HasSubstr("busy for 94 %"));
  tables.gaps.busy_s = 2e-6;
  EXPECT_THAT(nsys_summary(tables), HasSubstr("top limiter: gaps"));
}

TEST(NcuTables, KernelsAreClassifiedByTheirDistanceFromThePeaks) {
  const auto kernels = parse_ncu(fixture("ncu_details.csv"), "f");
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_DOUBLE_EQ(kernels[0].duration_s, 12e-6);
  EXPECT_EQ(kernels[0].memory, 88.5) << "the one in percent, not the one in bytes per second";
  EXPECT_EQ(kernels[0].limiter(), Limiter::memory);
  EXPECT_EQ(kernels[1].limiter(), Limiter::latency);
  EXPECT_EQ(kernels[1].occupancy, 1.6);
  EXPECT_EQ(kernels[1].dram, -1) << "not in the file";
  const std::string text = ncu_summary(kernels);
  EXPECT_THAT(text, HasSubstr("top limiter: memory of softmax_kernel"));
  EXPECT_THAT(text, HasSubstr("L2 Hit Rate: 12.5 %"));
  EXPECT_THAT(text, HasSubstr("greater than 80.0%"));
}

TEST(NcuTables, WhatNcuWroteOnAnH100) {
  const auto kernels = parse_ncu(fixture("ncu_h100.csv"), "f");
  ASSERT_EQ(kernels.size(), 1U) << "of one application, which a range of ours selected";
  EXPECT_THAT(kernels[0].kernel, HasSubstr("softmax_kernel"));
  EXPECT_DOUBLE_EQ(kernels[0].duration_s, 23.296e-6);
  EXPECT_EQ(kernels[0].memory, 59.99);
  EXPECT_EQ(kernels[0].dram, 59.99);
  EXPECT_EQ(kernels[0].compute, 19.68);
  EXPECT_EQ(kernels[0].occupancy, 38.09);
  EXPECT_EQ(kernels[0].advice.size(), 4U);
  EXPECT_THAT(ncu_summary(kernels), HasSubstr("L2 Hit Rate: 51.23 %"));
}

TEST(FunctionTables, PerfAndCallgrind) {
  const Functions perf = parse_perf(fixture("perf.txt"), "f");
  ASSERT_EQ(perf.list.size(), 2U);
  EXPECT_EQ(perf.unit, "samples of cpu-clock:u");
  EXPECT_EQ(perf.total, 4);
  EXPECT_EQ(perf.list[0].function, "duet::gemm(float const*, int)");
  EXPECT_EQ(perf.list[0].share, 0.75);
  EXPECT_EQ(perf.list[1].module, "libc.so.6");

  const Functions callgrind = parse_callgrind(fixture("callgrind.out"), "f");
  ASSERT_EQ(callgrind.list.size(), 2U);
  EXPECT_EQ(callgrind.total, 150);
  EXPECT_EQ(callgrind.list[0].function, "duet::relu(float const*, float*)");
  EXPECT_DOUBLE_EQ(callgrind.list[0].share, 0.6) << "without what it calls";
  EXPECT_EQ(callgrind.list[1].function, "memcpy");
  EXPECT_EQ(callgrind.list[1].module, "libc.so.6");
}

TEST(CounterTables, WhatIsNotCountedHasAReasonAndIsNeverZero) {
  const auto counters = parse_perf_stat(fixture("perf_stat.csv"), "f");
  ASSERT_EQ(counters.size(), 3U);
  EXPECT_EQ(counters[0].event, "instructions");
  EXPECT_EQ(counters[0].count, 4000000);
  EXPECT_FALSE(counters[1].count);
  EXPECT_THAT(counters[1].unavailable_reason, HasSubstr("no such counter"));
  const std::string text = counters_summary(counters, 10, 1e6);
  EXPECT_THAT(text, testing::ContainsRegex("instructions +400000"));
  EXPECT_THAT(text, testing::ContainsRegex("cycles +unavailable .this machine has no such counter"));
  EXPECT_THAT(text, HasSubstr("lines read from memory: 640 kB; modelled traffic, with writes: 1.00 MB (0.64"));
}

TEST(Tables, OtherTextIsAnErrorThatNamesTheFile) {
  for (const std::string& text : {std::string(), std::string("hello\n"), std::string("a,b\n1,2\n")}) {
    EXPECT_THROW(parse_nsys_ranges(text, "f.csv"), Error);
    EXPECT_THROW(parse_nsys_gaps(text, "f.csv"), Error);
    EXPECT_THROW(parse_ncu(text, "f.csv"), Error);
    EXPECT_THROW(parse_perf(text, "f.txt"), Error);
    EXPECT_THROW(parse_callgrind(text, "f.out"), Error);
    EXPECT_THROW(parse_perf_stat(text, "f.csv"), Error);
    EXPECT_THROW(parse_trace(text, "f.json"), Error);
  }
  try {
    parse_nsys_kernels("Total Time (ns),Instances,Name\nmany,1,k\n", "f.csv");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("f.csv: 'many' in column 'Total Time (ns)'"));
  }
}

TEST(TraceSummary, AddsUpPhasesAndOpsOfCapturedSteps) {
  Trace trace;
  const auto add = [&](const std::string& id, int depth, double begin_s, double time_s, double flops = 0) {
    trace.ranges.push_back({.id = id,
                            .category = "",
                            .process = 1,
                            .thread = 1,
                            .depth = depth,
                            .begin_s = begin_s,
                            .time_s = time_s,
                            .bytes = 0,
                            .flops = flops,
                            .unfinished = false});
  };
  add("step/mlp/cpu/f32/batch:2/call/warm/threads:1", 0, 0, 1);
  add("warmup", 1, 0, 0.1);
  add("step", 2, 0, 0.1);  // is not captured
  add("step/mlp/cpu/f32/batch:2/call/warm/threads:1", 0, 2, 12);
  add("measure", 1, 2, 10);
  for (int i = 0; i < 2; ++i) {
    add("step", 2, 2 + 5 * i, 4);
    add("forward", 3, 2 + 5 * i, 3);
    add("linear/cpu.tuned/f32/n:2", 4, 2 + 5 * i, 2, 8e9);
    add("relu/cpu.tuned/f32/n:2", 4, 4 + 5 * i, 0.5);
  }
  const std::string text = trace_summary(trace);
  EXPECT_THAT(text, HasSubstr("2 steps of 4.00 s each"));
  EXPECT_THAT(text, testing::ContainsRegex("forward +3.00 s +75 %"));
  EXPECT_THAT(text, testing::ContainsRegex("between phases +1.00 s +25 %"));
  EXPECT_THAT(text, testing::ContainsRegex("gaps between ops +500 ms +1[23] %"));
  EXPECT_THAT(text, testing::ContainsRegex("linear cpu.tuned +1 a step +2.00 s +50 % +4.00 GFLOP/s"));
  EXPECT_THAT(text, HasSubstr("top limiter: linear/cpu.tuned/f32/n:2, 50 % of a step"));
}

}  // namespace
}  // namespace duet::profile
