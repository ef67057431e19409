// SPDX-License-Identifier: Apache-2.0
// What the studies say: their curves and sentences, from invented rows of both sides.
#include "reports/studies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "reports/report.h"
#include "results/facts.h"
#include "tests/results/fixture.h"

namespace duet::reports {
namespace {

using results::testing::decide;
using results::testing::make_job;
using results::testing::make_missing;
using results::testing::make_run;
using results::testing::make_series;
using ::testing::HasSubstr;
using ::testing::Not;

// A row of a study, "study/transfer cpu.libc", with these parameters and time.
Job row(const std::string& op, const std::string& impl, Params params, double time_s, int64_t bytes = 1 << 20) {
  std::string label = "f32";
  for (const auto& [name, value] : params) label += "/" + name + ":" + results::text_of(value);
  const bool gpu = impl.starts_with("cuda");
  std::vector<Series> series{make_series(Scope::call, gpu ? 2 * time_s : time_s, 0.5, gpu ? 1 : 2)};
  if (gpu) series.insert(series.begin(), make_series(Scope::kernel, time_s, 0.5));
  for (Series& s : series) s.roof.reset();
  Job job = make_job(op + "/" + impl + "/" + label, std::move(series));
  job.family = "study";
  job.params = std::move(params);
  job.bytes = bytes;
  decide(job);
  return job;
}
Params n_of(int64_t n) { return {{"n", n}}; }

const Study& one(const std::vector<Study>& all) {
  EXPECT_EQ(all.size(), 1u);
  static const Study none;
  return all.empty() ? none : all.front();
}
std::string sentence_of(std::vector<Job> jobs) {
  const results::Run run = make_run(std::move(jobs));
  return one(studies_of(run)).sentence;
}

TEST(Studies, FitFindsWhatACopyConsistsOf) {
  std::vector<std::pair<double, double>> points;
  for (const double bytes : {4096.0, 65536.0, 1048576.0, 67108864.0}) points.emplace_back(bytes, 2e-6 + bytes / 1e10);
  const auto fitted = fit(points);
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->fixed_s, 2e-6, 1e-12);
  EXPECT_NEAR(fitted->rate, 1e10, 1e4);
  // A large copy that took 3 % longer does not move what a small one costs.
  EXPECT_NEAR(fit({{1e3, 3e-6}, {1e6, 1.002e-3}, {1e9, 1.03}})->fixed_s, 2e-6, 0.1e-6);
  EXPECT_FALSE(fit({}));
  EXPECT_FALSE(fit({{4096, 1e-6}})) << "one size has no rate";
  EXPECT_FALSE(fit({{4096, 1e-6}, {4096, 2e-6}})) << "nor has one size twice";
  EXPECT_FALSE(fit({{4096, 2e-6}, {65536, 1e-6}})) << "a larger copy is not faster";
  EXPECT_EQ(fit({{1000, 1e-6}, {2000, 3e-6}})->fixed_s, 0) << "no time is negative";
}

TEST(Studies, TransferNamesEachWayWithItsFit) {
  std::vector<Job> jobs;
  for (const int64_t n : {1024, 262144, 16777216}) {
    const double bytes = 4.0 * static_cast<double>(n);
    jobs.push_back(row("study/transfer", "cpu.libc", n_of(n), 1e-6 + bytes / 1e10));
    Params pinned = n_of(n);
    pinned.emplace_back("direction", std::string("d2h"));
    pinned.emplace_back("memory", std::string("pinned"));
    jobs.push_back(row("study/transfer", "cuda.runtime", pinned, (8e-6 + bytes / 5e10) / 2));
  }
  const results::Run run = make_run(jobs);
  const Study study = one(studies_of(run));
  ASSERT_EQ(study.lines.size(), 2u);
  EXPECT_EQ(study.lines[0].label, "cpu.libc");
  EXPECT_EQ(study.lines[1].label, "d2h pinned");
  EXPECT_EQ(study.lines[1].points.size(), 3u);
  EXPECT_EQ(study.sentence,
            "A copy takes, fitted as a + bytes / B: cpu.libc 1.00 µs + bytes / (10.0 GB/s); d2h pinned "
            "8.00 µs + bytes / (50.0 GB/s).");
}

TEST(Studies, TransferShowsNoFitThatMissesASize) {
  std::vector<Job> jobs;
  for (const auto& [n, rate] : {std::pair{1024, 2e10}, {262144, 1e11}, {1048576, 1e10}, {16777216, 1e10}})
    jobs.push_back(row("study/transfer", "cpu.libc", n_of(n), 4.0 * n / rate));
  EXPECT_EQ(sentence_of(jobs), "cpu.libc reaches 20.0 GB/s at 4.00 KiB and 10.0 GB/s at 64.0 MiB.");
  for (const int64_t n : {1024, 262144})
    jobs.push_back(row("study/transfer", "cpu.streaming", n_of(n), 1e-6 + 4.0 * static_cast<double>(n) / 1e10));
  EXPECT_EQ(sentence_of(jobs),
            "A copy takes, fitted as a + bytes / B: cpu.streaming 1.00 µs + bytes / (10.0 GB/s). Without a fit that "
            "is near every size: cpu.libc reaches 20.0 GB/s at 4.00 KiB and 10.0 GB/s at 64.0 MiB.");
}

TEST(Studies, PipelineSaysHowMuchOfTheCopiesWasHidden) {
  const auto part = [](int64_t chunks, int64_t streams, int64_t rounds, double time_s, const char* impl) {
    return row("study/pipeline", impl,
               {{"n", int64_t{4096}}, {"chunks", chunks}, {"streams", streams}, {"rounds", rounds}}, time_s);
  };
  const std::vector<Job> cpu{part(1, 1, 0, 4e-3, "cpu.tuned"), part(1, 1, 64, 10e-3, "cpu.tuned"),
                             part(4, 2, 64, 7e-3, "cpu.tuned"), part(16, 2, 64, 8e-3, "cpu.tuned")};
  EXPECT_EQ(sentence_of(cpu),
            "The fastest way, CPU in 4 chunks with 2 buffers: 75 % of the time of the copies hidden.");
  std::vector<Job> one_buffer = cpu;
  one_buffer.push_back(part(4, 1, 64, 6e-3, "cpu.tuned"));
  EXPECT_EQ(sentence_of(one_buffer), sentence_of(cpu)) << "one buffer hides nothing: its gain is that of a cache";
  std::vector<Job> slower{part(1, 1, 0, 4e-3, "cpu.tuned"), part(1, 1, 64, 10e-3, "cpu.tuned"),
                          part(4, 2, 64, 11e-3, "cpu.tuned")};
  EXPECT_THAT(sentence_of(slower), HasSubstr("nothing hidden, the chunks cost 10 % more"));
  // By call on a GPU as well: its copies are part of the work.
  slower.push_back(part(1, 1, 64, 10e-3, "cuda.streams"));
  slower.push_back(part(8, 4, 64, 5e-3, "cuda.streams"));
  EXPECT_THAT(sentence_of(slower),
              HasSubstr("GPU in 8 chunks with 4 streams: 50 % of the time of one after the other"));
}

TEST(Studies, AllocationComparesNewMemoryWithAnArena) {
  std::vector<Job> jobs;
  for (const int64_t pages : {1, 1024}) {
    const auto of = [&](const char* impl, double page_s) {
      jobs.push_back(row("study/allocation", impl, {{"pages", pages}}, page_s * static_cast<double>(pages)));
    };
    of("cpu.arena", 10e-9);
    of("cpu.malloc", 500e-9);
    of("cpu.huge", 50e-9);
  }
  EXPECT_EQ(sentence_of(jobs),
            "4.00 MiB of new memory cost, beside the 10.0 ns a page of an arena that is used again: "
            "cpu.huge 5.00×, of malloc, which may reuse what was freed, cpu.malloc 50.0×.");
}

TEST(Studies, CurvesOfDivisionAreRelativeToTheirBest) {
  std::vector<Job> jobs;
  for (const int64_t parts : {1, 2, 1024})
    jobs.push_back(row("study/block_size_add", "cpu.parts",
                       {{"n", int64_t{64}}, {"threads", int64_t{0}}, {"parts", parts}},
                       parts == 2   ? 1e-3
                       : parts == 1 ? 2e-3
                                    : 4e-3));
  for (const int64_t threads : {32, 256})
    jobs.push_back(row("study/block_size_add", "cuda.kernel",
                       {{"n", int64_t{64}}, {"threads", threads}, {"parts", int64_t{0}}}, threads == 32 ? 3e-6 : 1e-6));
  const results::Run run = make_run(jobs);
  const Study study = one(studies_of(run));
  ASSERT_EQ(study.lines.size(), 2u);
  EXPECT_DOUBLE_EQ(study.lines[0].points[0].y, 2);
  EXPECT_EQ(study.sentence,
            "add on the CPU is fastest with 2 parts, 4.00× faster than with 1024; add on the GPU is fastest "
            "with 256 threads, 3.00× faster than with 32.");
  EXPECT_EQ(sentence_of({jobs.front()}), "") << "one point is no curve";
}

TEST(Studies, CoalescingFollowsTheStride) {
  std::vector<Job> jobs;
  for (const int64_t stride : {1, 8, 32})
    jobs.push_back(row("study/coalescing", "cuda.kernel",
                       {{"n", int64_t{64}}, {"stride", stride}, {"width", int64_t{4}}},
                       1e-6 * static_cast<double>(stride), 1000000));
  Params shifted{{"n", int64_t{64}}, {"stride", int64_t{1}}, {"offset", int64_t{31}}, {"width", int64_t{4}}};
  jobs.push_back(row("study/coalescing", "cuda.kernel", shifted, 2e-6, 1000000));
  EXPECT_EQ(sentence_of(jobs),
            "From neighbours to a stride of 32, what is asked for falls: cuda.kernel, 4 bytes from "
            "1.00 TB/s to 31.2 GB/s (3.1 % of it). Off the beginning of a line, cuda.kernel, 4 bytes has 50 % of its "
            "rate, from element 31 on.");
  EXPECT_EQ(sentence_of({jobs.front(), jobs.back()}),
            "Off the beginning of a line, cuda.kernel, 4 bytes has 50 % of its rate, from element 31 on.");
}

TEST(Studies, MemoryKindsByRateOnTheGpuAndBySizeOnTheCpu) {
  std::vector<Job> jobs;
  const auto lookup = [&](const char* impl, int64_t size, double time_s) {
    jobs.push_back(
        row("study/memory_kind_lookup", impl, {{"size", size}, {"n", int64_t{1000000}}, {"uniform", false}}, time_s));
  };
  lookup("cpu.tuned", 1024, 1e-3);
  lookup("cpu.tuned", 16777216, 10e-3);
  lookup("cuda.global", 1024, 4e-6);
  lookup("cuda.shared", 1024, 1e-6);
  EXPECT_EQ(sentence_of(jobs),
            "divergent lookup, cpu.tuned: 1.00 G/s from 4.00 KiB, 100 M/s from 64.0 MiB; on the GPU "
            "divergent lookup of 4.00 KiB: cuda.shared is 4.00× as fast as cuda.global.");
}

// A filter is not compared with a lookup, and sizes that only one kind has not with those of another.
TEST(Studies, MemoryKindsOfOnePatternAndSizeAreCompared) {
  std::vector<Job> jobs;
  const auto lookup = [&](const char* impl, bool uniform, int64_t size, double time_s) {
    jobs.push_back(
        row("study/memory_kind_lookup", impl, {{"size", size}, {"n", int64_t{1000000}}, {"uniform", uniform}}, time_s));
  };
  const auto filter = [&](const char* impl, double time_s) {
    jobs.push_back(row("study/memory_kind_filter", impl, {{"h", int64_t{32}}, {"w", int64_t{32}}}, time_s));
  };
  filter("cuda.global", 1e-3);
  filter("cuda.shared", 5e-4);
  lookup("cuda.global", false, 1024, 4e-6);
  lookup("cuda.shared", false, 1024, 1e-6);
  lookup("cuda.global", false, 16777216, 1e-2);
  lookup("cuda.global", true, 1024, 2e-6);
  lookup("cuda.readonly", true, 1024, 1e-6);
  EXPECT_EQ(sentence_of(jobs),
            "on the GPU divergent lookup of 4.00 KiB: cuda.shared is 4.00× as fast as cuda.global; on the GPU filter "
            "of 4.00 KiB: cuda.shared is 2.00× as fast as cuda.global; on the GPU uniform lookup of 4.00 KiB: "
            "cuda.readonly is 2.00× as fast as cuda.global.");
}

TEST(Studies, PaddingPrefetchOccupancyAndLaunches) {
  const auto tile = [](bool pad, double time_s) {
    return row("study/bank_conflict", "cpu.tuned", {{"rows", int64_t{64}}, {"cols", int64_t{64}}, {"pad", pad}},
               time_s);
  };
  EXPECT_EQ(sentence_of({tile(false, 4e-3), tile(true, 1e-3)}),
            "By padding the rows of the tile, cpu.tuned 64x64 gains 4.00×.");
  EXPECT_EQ(sentence_of({tile(false, 1e-3), tile(true, 2e-3)}),
            "By padding the rows of the tile, cpu.tuned 64x64 loses 50 %.");
  const auto ahead = [](int64_t lines, double time_s) {
    return row("study/prefetch", "cpu.tuned",
               {{"rows", int64_t{16}}, {"n", int64_t{8}}, {"ahead", lines}, {"order", std::string("random")}}, time_s);
  };
  EXPECT_EQ(sentence_of({ahead(0, 3e-3), ahead(8, 1e-3), ahead(32, 2e-3)}),
            "Asking before the use: cpu.tuned, random of 512 B gains 3.00× with 8 ahead.");
  EXPECT_EQ(sentence_of({ahead(0, 1e-3), ahead(8, 2e-3)}),
            "Asking before the use: cpu.tuned, random of 512 B gains nothing.");
  const auto occupied = [](const char* impl, int64_t shared, int64_t chains, double time_s) {
    return row("study/occupancy", impl,
               {{"n", int64_t{8}}, {"rounds", int64_t{512}}, {"shared", shared}, {"chains", chains}}, time_s);
  };
  EXPECT_EQ(
      sentence_of({occupied("cpu.tuned", -1, 1, 8e-3), occupied("cpu.tuned", -1, 8, 1e-3),
                   occupied("cuda.kernel", 0, 0, 1e-6), occupied("cuda.kernel", 200, 0, 5e-6)}),
      "multiply-adds on the CPU is fastest with 8 chains, 8.00× faster than with 1; multiply-adds on the GPU takes "
      "5.00× as long with 200 KiB of shared memory a block as with 0.");
  const auto nodes = [](const char* impl, int64_t count, double time_s) {
    return row("study/launch", impl, {{"nodes", count}}, time_s);
  };
  EXPECT_EQ(sentence_of({nodes("cpu.fork", 1, 9e-6), nodes("cpu.fork", 1000, 2e-3), nodes("cuda.graph", 1000, 1e-3)}),
            "A node of 1000 costs: cpu.fork 2.00 µs; cuda.graph 2.00 µs.");
}

TEST(Studies, RowsWithoutAResultAreNotDrawn) {
  Job failed = row("study/launch", "cpu.fork", {{"nodes", int64_t{1}}}, 1e-6);
  failed.status = Status::failed;
  failed.comparable = false;
  const results::Run run =
      make_run({failed, make_missing("study/launch/cuda.graph/f32/nodes:1", Status::skipped, "no CUDA device")});
  EXPECT_TRUE(studies_of(run).empty());
}

TEST(Studies, TakeNoPartInRatios) {
  const results::Run run = make_run({row("study/transfer", "cpu.libc", n_of(1024), 4e-6),
                                     row("study/transfer", "cpu.streaming", n_of(1024), 1e-6),
                                     row("study/transfer", "cuda.runtime", n_of(1024), 1e-6)});
  const Analysis analysis = analyse(run);
  EXPECT_TRUE(analysis.speedups.empty());
  EXPECT_TRUE(analysis.one_sided.empty());
  EXPECT_TRUE(analysis.families.empty());
  EXPECT_TRUE(analysis.beaten.empty());
  EXPECT_EQ(analysis.studies.size(), 1u);
  EXPECT_THAT(console_table(run), HasSubstr("The run has one study of memory and transfer"));
}

TEST(Studies, ChartHasEachRowAndNoNumberThatIsNone) {
  const results::Run run = make_run({row("study/transfer", "cpu.libc", n_of(1024), 4e-6),
                                     row("study/transfer", "cpu.libc", n_of(262144), 1e-4),
                                     row("study/transfer", "cuda.runtime", n_of(1024), 1e-6)});
  const Chart chart = study_chart(one(studies_of(run)));
  EXPECT_EQ(chart.stem, "study_transfer");
  EXPECT_THAT(chart.marks, HasSubstr("cpu.libc, 1.00 MiB: 10.5 GB/s (100 µs)"));
  EXPECT_THAT(chart.marks, HasSubstr("h2d pageable, 4.00 KiB"));
  EXPECT_THAT(chart.marks, Not(HasSubstr("nan")));
}

TEST(Studies, ChartHasAnotherMarkForEachLine) {
  std::vector<Job> jobs;
  for (const char* impl : {"cuda.global", "cuda.readonly", "cuda.shared", "cuda.constant", "cuda.texture"}) {
    jobs.push_back(row("study/memory_kind_filter", impl, {{"h", int64_t{32}}, {"w", int64_t{32}}}, 1e-3));
    for (const bool uniform : {false, true})
      jobs.push_back(row("study/memory_kind_lookup", impl,
                         {{"size", int64_t{1024}}, {"n", int64_t{1000000}}, {"uniform", uniform}}, 1e-3));
  }
  const std::string marks = study_chart(one(studies_of(make_run(jobs)))).marks;
  const std::regex mark(R"re(<(circle|path d="[^"]*")[^>]* class="mark [^"]*")re");
  std::set<std::string> different;
  for (auto m = std::sregex_iterator(marks.begin(), marks.end(), mark); m != std::sregex_iterator(); ++m)
    different.insert(m->str());
  EXPECT_EQ(different.size(), jobs.size());
}

}  // namespace
}  // namespace duet::reports
