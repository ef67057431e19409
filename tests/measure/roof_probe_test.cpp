// SPDX-License-Identifier: Apache-2.0
// The passes that measure a roof, and the probe of a row's own roof on either device.
#include "bench/roof_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <utility>

#include "bench/cpu_pass.h"
#include "core/cpu_context.h"
#include "results/rules.h"
#include "tests/measure/fake_gpu.h"
#include "tests/results/fixture.h"

namespace duet::bench {
namespace {
using results::Scope;
using results::testing::make_ceiling;
using testing::ElementsAre;
using testing::Pair;

constexpr int64_t kMiB = 1 << 20;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Work copy_work(const char* device, double bytes, double flops = 0, const char* dtype = "f32") {
  return {.device = device,
          .dtype = dtype,
          .math = "ieee",
          .threads = 1,
          .pattern = "copy",
          .footprint_bytes = kMiB,
          .flops = flops,
          .bytes = bytes};
}

// --- on the CPU

TEST(CpuPass, CountsWhatItMoves) {
  CpuContext cpu(1);
  CpuPasses passes(cpu);
  const PassClock clock(cpu, Scope::call, false);
  const std::map<std::string, int> moves{{"read", 1}, {"write", 1},  {"clear", 1},
                                         {"copy", 1}, {"update", 2}, {"triad", 1}};
  for (const auto& [pattern, times] : moves) {
    const auto pass = fastest(clock, passes.memory(pattern, 3 * kMiB), {});
    EXPECT_EQ(pass->footprint_bytes, 3 * kMiB) << pattern;
    EXPECT_EQ(pass->amount, 3.0 * kMiB * times) << pattern << ": of the footprint, once or twice";
    EXPECT_EQ(pass->ceiling, "cpu." + pattern);
  }
  const auto faster = fastest(clock, passes.memory("update|read", kMiB), {});
  EXPECT_TRUE(faster->ceiling == "cpu.update" || faster->ceiling == "cpu.read") << faster->ceiling;
  EXPECT_TRUE(passes.memory("scatter", kMiB).empty());
  EXPECT_FALSE(fastest(clock, passes.compute("f8", kInfinity), {}));
  // Beside a short row, a pass as short as the row.
  const double long_pass = fastest(clock, passes.compute("f32", kInfinity), {})->amount, short_pass = long_pass / 64;
  for (const auto& pass : passes.compute("f32", short_pass)) {
    EXPECT_LE(pass->amount, short_pass);
    EXPECT_GT(pass->amount, short_pass / 2);
  }
}

TEST(RoofProbe, TakesTheRowsWork) {
  CpuContext cpu(1);
  const std::vector<Ceiling> ceilings{make_ceiling("cpu.copy", 1e10, "B/s", kMiB),
                                      make_ceiling("cpu.fma.f32", 1e11, "FLOP/s")};
  RoofProbes probes(cpu, std::make_unique<CpuPasses>(cpu), ceilings);
  const auto by_memory = probes.probe(copy_work("cpu", kMiB), Scope::call);
  ASSERT_TRUE(by_memory);
  EXPECT_GT(by_memory->sample(), 0);
  // The same pass, for a row that moves a thousand times as much in it: no disturbance makes up for that.
  const auto larger = probes.probe(copy_work("cpu", 1000.0 * kMiB), Scope::call);
  EXPECT_GT(larger->sample(), 10 * by_memory->sample());
  const auto by_compute = probes.probe(copy_work("cpu", kMiB, 1e9), Scope::call);
  EXPECT_GT(by_compute->sample(), 10 * by_memory->sample()) << "a milliseconds' worth of multiply-adds";
  EXPECT_FALSE(probes.probe(copy_work("cpu", 0), Scope::call));
  const std::vector<Ceiling> none;
  EXPECT_FALSE(RoofProbes(cpu, std::make_unique<CpuPasses>(cpu), none).probe(copy_work("cpu", kMiB), Scope::call));
}

TEST(RoofProbe, SaysHowMuchSlowerMultiplyAddsAreThanTheyWere) {
  CpuContext cpu(1);
  const auto probe_of = [&](double peak, double flops) {
    const std::vector<Ceiling> ceilings{make_ceiling("cpu.copy", 1e10, "B/s", kMiB),
                                        make_ceiling("cpu.fma.f32", peak, "FLOP/s")};
    RoofProbes probes(cpu, std::make_unique<CpuPasses>(cpu), ceilings);
    const auto probe = probes.probe(copy_work("cpu", kMiB, flops), Scope::call);
    probe->sample();
    return probe->slowdown();
  };
  EXPECT_TRUE(results::slowed(probe_of(8e11, 1e10))) << "the ceiling was measured at a speed that is not there now";
  EXPECT_EQ(probe_of(1e8, 1e10), 1) << "the fastest so far";
  EXPECT_EQ(probe_of(1e10, 1), 1) << "memory bounds the row";
}

// Those of a CPU; counts how often they are asked for.
struct CountedCpuPasses final : Passes {
  CountedCpuPasses(CpuContext& cpu, int& asked) : passes(cpu), asked(asked) {}
  std::vector<std::unique_ptr<Pass>> memory(std::string_view patterns, int64_t footprint) override {
    return passes.memory(patterns, footprint);
  }
  std::vector<std::unique_ptr<Pass>> compute(const std::string& dtype, double max_operations) override {
    ++asked;
    return passes.compute(dtype, max_operations);
  }
  int64_t cache_bytes() const override { return passes.cache_bytes(); }
  CpuPasses passes;
  int& asked;
};

TEST(RoofProbe, KeepsNoPassThatWasChosenWhileTheCpusWereSlow) {
  CpuContext cpu(1);
  const auto times_chosen = [&](double peak) {
    const std::vector<Ceiling> ceilings{make_ceiling("cpu.copy", 1e10, "B/s", kMiB),
                                        make_ceiling("cpu.fma.f32", peak, "FLOP/s")};
    int asked = 0;
    RoofProbes probes(cpu, std::make_unique<CountedCpuPasses>(cpu, asked), ceilings);
    for (int row = 0; row < 3; ++row) EXPECT_TRUE(probes.probe(copy_work("cpu", kMiB, 1e10), Scope::call));
    return asked;
  };
  EXPECT_EQ(times_chosen(8e11), 3) << "never at the speed of the ceiling";
  EXPECT_EQ(times_chosen(1e8), 1);
}

// --- on a GPU, whose clock is the test's

// What was asked of a device, and what ran there.
struct Asked {
  std::vector<std::pair<std::string, int64_t>> footprints;  // with their patterns
  std::vector<std::pair<std::string, double>> operations;   // with their dtypes
  int runs = 0, runs_by_device_time = 0, evictions = 0;
};

class FakePasses final : public Passes {
 public:
  FakePasses(FakeGpu& gpu, Asked& asked) : gpu_(gpu), asked_(asked) {}
  std::vector<std::unique_ptr<Pass>> memory(std::string_view patterns, int64_t footprint) override {
    asked_.footprints.emplace_back(patterns, footprint);
    return one(static_cast<double>(footprint));
  }
  std::vector<std::unique_ptr<Pass>> compute(const std::string& dtype, double max_operations) override {
    asked_.operations.emplace_back(dtype, max_operations);
    return dtype == "f32" ? one(std::min(max_operations, 1e12)) : std::vector<std::unique_ptr<Pass>>();
  }
  int64_t cache_bytes() const override { return 50 * kMiB; }

 private:
  struct Counted final : Pass {
    Counted(FakeGpu& gpu, Asked& asked) : gpu(gpu), asked(asked) {}
    void run() override {
      ++asked.runs;
      asked.runs_by_device_time += gpu.inside_device_time;
    }
    void evict() override { ++asked.evictions; }
    std::unique_ptr<Pass> resized(int64_t footprint) const override {
      auto pass = std::make_unique<Counted>(gpu, asked);
      pass->amount = static_cast<double>(footprint);
      return pass;
    }
    FakeGpu& gpu;
    Asked& asked;
  };
  std::vector<std::unique_ptr<Pass>> one(double amount) const {
    std::vector<std::unique_ptr<Pass>> passes;
    passes.push_back(std::make_unique<Counted>(gpu_, asked_));
    passes.back()->amount = amount;
    return passes;
  }
  FakeGpu& gpu_;
  Asked& asked_;
};

struct RoofProbeOnAGpu : testing::Test {
  std::vector<Ceiling> ceilings{
      make_ceiling("gpu.copy", 1e12, "B/s", 12 * kMiB), make_ceiling("gpu.copy", 1e12, "B/s", 512 * kMiB),
      make_ceiling("gpu.fma.f32", 1e13, "FLOP/s"), make_ceiling("gpu.mma.bf16", 1e15, "FLOP/s")};
  FakeGpu gpu;
  Asked asked;
  RoofProbes probes{gpu, std::make_unique<FakePasses>(gpu, asked), ceilings};
};

TEST_F(RoofProbeOnAGpu, HasTheFootprintOfTheRowHoweverSmall) {
  Work work = copy_work("gpu", 4096);
  work.footprint_bytes = 4096;
  ASSERT_TRUE(probes.probe(work, Scope::kernel));
  work.footprint_bytes = 100 * kMiB;
  ASSERT_TRUE(probes.probe(work, Scope::kernel));
  work.footprint_bytes = 3000 * kMiB;
  ASSERT_TRUE(probes.probe(work, Scope::kernel));
  EXPECT_THAT(asked.footprints, ElementsAre(Pair("copy", 4096), Pair("copy", 100 * kMiB), Pair("copy", 512 * kMiB)))
      << "what is far beyond the caches is as fast as the largest";
  EXPECT_TRUE(asked.operations.empty());
}

TEST_F(RoofProbeOnAGpu, HasTheDtypeOfTheRow) {
  ASSERT_TRUE(probes.probe(copy_work("gpu", 4096, 1000000), Scope::kernel));
  EXPECT_THAT(asked.operations, ElementsAre(Pair("f32", 0x1p20))) << "as short as the row";
  EXPECT_TRUE(asked.footprints.empty()) << "memory does not bound it";
}

TEST_F(RoofProbeOnAGpu, IsNoneWhereTheDeviceHasNoPassForTheDtype) {
  EXPECT_FALSE(probes.probe(copy_work("gpu", 5e7, 1e11, "bf16"), Scope::kernel)) << "memory alone would be half of it";
  EXPECT_THAT(asked.operations, ElementsAre(Pair("bf16", 0x1p37)));
}

TEST_F(RoofProbeOnAGpu, IsSharedByRowsOfOnePatternAndFootprint) {
  const auto kernel = probes.probe(copy_work("gpu", kMiB), Scope::kernel);
  const auto other = probes.probe(copy_work("gpu", 2 * kMiB), Scope::call);
  EXPECT_EQ(asked.footprints.size(), 1u) << "one trial";
  probes.probe(copy_work("gpu", kMiB), Scope::kernel, true);
  EXPECT_EQ(asked.footprints.size(), 2u) << "another one, since the row was faster";
}

TEST_F(RoofProbeOnAGpu, OfAKernelIsTimedByTheDevice) {
  gpu.device_s = 30e-6;
  const auto probe = probes.probe(copy_work("gpu", kMiB), Scope::kernel);
  ASSERT_TRUE(probe);
  asked.runs = asked.runs_by_device_time = 0;
  EXPECT_DOUBLE_EQ(probe->sample(), 30e-6);
  EXPECT_EQ(asked.runs, 4) << "100 us at least";
  EXPECT_EQ(asked.runs_by_device_time, asked.runs);
  // A row that moves three times as much in the same footprint.
  EXPECT_DOUBLE_EQ(probes.probe(copy_work("gpu", 3 * kMiB), Scope::kernel)->sample(), 90e-6);
  gpu.device_s = 60e-6;
  EXPECT_DOUBLE_EQ(probe->sample(), 60e-6) << "as the machine is now";
  EXPECT_EQ(asked.evictions, 0);
}

TEST_F(RoofProbeOnAGpu, OfACallIsALaunchAndAWait) {
  const auto probe = probes.probe(copy_work("gpu", kMiB), Scope::call);
  ASSERT_TRUE(probe);
  asked.runs = asked.runs_by_device_time = gpu.waits_for_device = 0;
  EXPECT_GT(probe->sample(), 0);
  EXPECT_EQ(asked.runs_by_device_time, 0);
  EXPECT_EQ(gpu.waits_for_device, asked.runs + 1) << "once before the clock, and once for each run";
}

TEST_F(RoofProbeOnAGpu, OfACallWaitsOnceForAllOfTheRowsWork) {
  Work work = copy_work("gpu", 5.0 * 512 * kMiB);
  work.footprint_bytes = 5 * 512 * kMiB;
  const auto probe = probes.probe(work, Scope::call);
  ASSERT_TRUE(probe);
  asked.runs = gpu.waits_for_device = 0;
  EXPECT_GT(probe->sample(), 0);
  EXPECT_EQ(asked.runs, 5 * (gpu.waits_for_device - 1));
}

TEST_F(RoofProbeOnAGpu, OfAColdRowEvictsBeforeEachRun) {
  Work work = copy_work("gpu", kMiB);
  work.cold = true;
  const auto probe = probes.probe(work, Scope::kernel);
  ASSERT_TRUE(probe);
  asked.runs = asked.evictions = 0;
  probe->warm_up();
  EXPECT_EQ(asked.runs, 0) << "it is to be cold";
  probe->sample();
  EXPECT_EQ(asked.runs, 1);
  EXPECT_EQ(asked.evictions, 1);
}

}  // namespace
}  // namespace duet::bench
