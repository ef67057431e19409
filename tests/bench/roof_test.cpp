// SPDX-License-Identifier: Apache-2.0
// The ceilings that a row is compared with, and what follows for its series.
#include "bench/roof.h"

#include <gtest/gtest.h>

#include <limits>

#include "bench/cpu_ceilings.h"
#include "tests/results/fixture.h"

namespace duet::bench {
namespace {
using results::Bound;
using results::Roof;
constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;

TensorSpec tensor(Role role, Shape shape, DType dtype = DType::f32) { return {"t", role, dtype, std::move(shape), {}}; }
TensorSpec in(int64_t n, DType dtype = DType::f32) { return tensor(Role::in, {n}, dtype); }
TensorSpec out(int64_t n, DType dtype = DType::f32) { return tensor(Role::out, {n}, dtype); }
TensorSpec inout(int64_t n, DType dtype = DType::f32) { return tensor(Role::inout, {n}, dtype); }

TEST(PatternOf, FollowsTheRoles) {
  EXPECT_EQ(pattern_of({in(1000), out(1)}), "read");                // sum
  EXPECT_EQ(pattern_of({in(1000), in(1000), out(1)}), "read");      // dot
  EXPECT_EQ(pattern_of({in(1000), out(1000)}), "copy");             // relu, transpose, softmax
  EXPECT_EQ(pattern_of({inout(1000)}), "update");                   // relu in place
  EXPECT_EQ(pattern_of({in(1000), in(1000), out(1000)}), "triad");  // add
  TensorSpec filled = out(1000);
  filled.fill = Fill::constant(0);
  EXPECT_EQ(pattern_of({filled}), "clear|write");
  EXPECT_EQ(pattern_of({in(1), filled}), "clear|write");
  EXPECT_EQ(pattern_of({out(1000), filled}), "write");
  filled.fill = Fill::constant(1);
  EXPECT_EQ(pattern_of({filled}), "write");
}

TEST(PatternOf, IgnoresSmallTensors) {
  EXPECT_EQ(pattern_of({in(1000), in(3), in(3), out(1000), out(3)}), "copy");  // layer norm
  EXPECT_EQ(pattern_of({inout(1000), in(9)}), "update");
  EXPECT_EQ(pattern_of({in(1000), out(20)}), "read");  // rows of 50 summed: 2 % written
}

TEST(PatternOf, TakesTheFasterNeighbourForMixtures) {
  EXPECT_EQ(pattern_of({in(1000), inout(1000), inout(1000)}), "update|read");  // sgd: g; p, v
  EXPECT_EQ(pattern_of({in(1000), inout(1000)}), "update|read");               // y += x
  EXPECT_EQ(pattern_of({in(4000), out(1000)}), "triad|read");                  // pooling
  EXPECT_EQ(pattern_of({in(1000), in(500), out(1000)}), "triad|copy");         // add of a broadcast half
  EXPECT_EQ(pattern_of({in(1000), in(1000), out(1000), out(1000)}), "copy");   // as many writes as reads
  EXPECT_EQ(pattern_of({in(1000), out(1000), out(1000, DType::u8)}), "copy");  // dropout: y and mask
  EXPECT_EQ(pattern_of({in(1000), inout(100), out(900)}), "copy");             // in place only at the edge
}

TEST(PatternOf, CountsBytesNotElements) {
  EXPECT_EQ(pattern_of({in(1000), out(1000, DType::bf16)}), "triad");      // twice as much read as written
  EXPECT_EQ(pattern_of({in(1 << 20).touching(1000), out(1000)}), "copy");  // embedding: of the table, what is looked up
}

TEST(PatternOf, StandsEmptyTensors) {
  EXPECT_EQ(pattern_of({}), "read");
  EXPECT_EQ(pattern_of({in(0), out(0)}), "read");
  EXPECT_EQ(pattern_of({out(1000)}), "write");
}

Ceiling bandwidth(const std::string& device, const std::string& pattern, int threads, int64_t footprint, double value) {
  Ceiling c;
  c.name = device + "." + pattern;
  c.device = device;
  c.pattern = pattern;
  c.threads = threads;
  c.footprint_bytes = footprint;
  c.value = value;
  c.unit = "B/s";
  return c;
}
Ceiling compute(const std::string& device, const std::string& unit, int threads, double value) {
  Ceiling c;
  c.name = device + "." + unit;
  c.device = device;
  c.threads = threads;
  c.value = value;
  c.unit = "FLOP/s";
  c.dtype = unit.substr(unit.find('.') + 1);
  return c;
}

const std::vector<Ceiling>& ceilings() {
  static const std::vector<Ceiling> all{bandwidth("cpu", "copy", 2, 16 * kKiB, 200e9),
                                        bandwidth("cpu", "copy", 2, 512 * kKiB, 100e9),
                                        bandwidth("cpu", "copy", 2, 4 * kMiB, 120e9),
                                        bandwidth("cpu", "copy", 2, 256 * kMiB, 20e9),
                                        bandwidth("cpu", "copy", 1, 16 * kKiB, 150e9),
                                        bandwidth("cpu", "read", 2, 256 * kMiB, 25e9),
                                        bandwidth("cpu", "update", 2, 256 * kMiB, 30e9),
                                        compute("cpu", "fma.f32", 2, 200e9),
                                        compute("cpu", "fma.bf16", 2, 400e9),
                                        compute("cpu", "fma.f32", 1, 100e9),
                                        bandwidth("gpu", "copy", 1, 1024 * kMiB, 4e12),
                                        compute("gpu", "fma.f32", 1, 60e12),
                                        compute("gpu", "mma.tf32", 1, 400e12),
                                        compute("gpu", "mma.bf16", 1, 800e12)};
  return all;
}

struct Row {
  std::string device = "cpu", dtype = "f32", math = "ieee";
  int threads = 2;
  std::string pattern = "copy";
  int64_t footprint = 256 * kMiB;
  bool cold = false;
  double flops = 0, bytes = 20e9, measured_s = 2;
};
std::optional<Roof> roof(const Row& r) {
  return roof_of(ceilings(), {r.device, r.dtype, r.math, r.threads, r.pattern, r.footprint, r.cold, r.flops, r.bytes,
                              r.measured_s});
}
double rate(const Row& r) { return roof(r).value().value; }

TEST(RoofOf, IsTheAllowedTimeOverTheMeasured) {
  const auto memory = roof({});
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->bound, Bound::memory);
  EXPECT_EQ(memory->ceiling, "cpu.copy");
  EXPECT_DOUBLE_EQ(memory->value, 20e9);
  EXPECT_DOUBLE_EQ(memory->fraction, 0.5);
}

TEST(RoofOf, TakesTheLongerTime) {
  EXPECT_EQ(roof({.flops = 199e9})->bound, Bound::memory);
  const auto compute = roof({.flops = 300e9});
  EXPECT_EQ(compute->bound, Bound::compute);
  EXPECT_EQ(compute->ceiling, "cpu.fma.f32");
  EXPECT_DOUBLE_EQ(compute->fraction, 0.75);
  EXPECT_EQ(roof({.flops = 300e9, .bytes = 0})->bound, Bound::compute);
}

TEST(RoofOf, NeverUsesAnotherNumberOfThreads) {
  EXPECT_DOUBLE_EQ(rate({.threads = 1, .footprint = 16 * kKiB}), 150e9);
  EXPECT_FALSE(roof({.threads = 4}));
  EXPECT_DOUBLE_EQ(rate({.device = "gpu", .threads = 4}), 4e12);  // which a GPU does not have
}

TEST(RoofOf, HoldsCachedRowsAgainstTheirCache) {
  EXPECT_DOUBLE_EQ(rate({.footprint = 8 * kKiB}), 200e9);    // below all
  EXPECT_DOUBLE_EQ(rate({.footprint = 17 * kKiB}), 200e9);   // may still lie in the nearer cache
  EXPECT_DOUBLE_EQ(rate({.footprint = 512 * kKiB}), 120e9);  // the larger one forks at less cost
  EXPECT_DOUBLE_EQ(rate({.footprint = 4 * kMiB}), 120e9);
  EXPECT_DOUBLE_EQ(rate({.footprint = 4 * kMiB - 4 * kKiB}), 120e9);  // three arrays in whole KiB: the same point
  EXPECT_DOUBLE_EQ(rate({.footprint = 64 * kMiB}), 120e9);
  EXPECT_DOUBLE_EQ(rate({.footprint = 255 * kMiB}), 20e9);
  EXPECT_DOUBLE_EQ(rate({.footprint = 4096 * kMiB}), 20e9);  // beyond all
  EXPECT_DOUBLE_EQ(rate({.footprint = 8 * kKiB, .cold = true}), 20e9);
}

TEST(RoofOf, TakesTheFasterOfTwoPatterns) {
  EXPECT_EQ(roof({.pattern = "update|read"})->ceiling, "cpu.update");
  EXPECT_FALSE(roof({.pattern = "triad|read"}));  // triad was not measured, and might be the faster one
}

TEST(RoofOf, FindsTheUnitOfAPrecision) {
  const auto ceiling = [](const char* device, const char* dtype, const char* math) {
    const auto r = roof({.device = device, .dtype = dtype, .math = math, .flops = 1e18, .bytes = 0});
    return r ? r->ceiling : "none";
  };
  EXPECT_EQ(ceiling("cpu", "f32", "tf32"), "cpu.fma.f32");
  EXPECT_EQ(ceiling("cpu", "bf16", "ieee"), "cpu.fma.bf16");
  EXPECT_EQ(ceiling("cpu", "i32", "ieee"), "cpu.fma.f32");
  EXPECT_EQ(ceiling("cpu", "f64", "ieee"), "none");
  EXPECT_EQ(ceiling("gpu", "f32", "ieee"), "gpu.fma.f32");
  EXPECT_EQ(ceiling("gpu", "f32", "tf32"), "gpu.mma.tf32");
  EXPECT_EQ(ceiling("gpu", "bf16", "ieee"), "gpu.mma.bf16");
  EXPECT_EQ(ceiling("gpu", "f16", "ieee"), "none");
}

TEST(RoofOf, SaysNothingWhereThereIsNothingToSay) {
  EXPECT_FALSE(roof({.flops = 0, .bytes = 0}));
  EXPECT_FALSE(roof({.measured_s = 0}));
  EXPECT_FALSE(roof({.measured_s = -1}));
  EXPECT_FALSE(roof({.measured_s = std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_FALSE(roof({.measured_s = std::numeric_limits<double>::infinity()}));
  EXPECT_FALSE(roof({.pattern = "triad"}));
  EXPECT_FALSE(roof({.pattern = ""}));
  EXPECT_FALSE(roof({.device = "tpu"}));
  EXPECT_TRUE(roof({.dtype = "f64"}));  // no f64 peak, but none is needed to move
}

// --- what a job holds after it was compared

using Flags = std::vector<std::string>;

// Moves 2000 bytes, for which a device takes 2 us at its ceiling of 1 GB/s.
results::Job copy_job(const char* name, results::Scope scope, double median_s) {
  results::Job job = results::testing::make_job(name, {results::testing::make_series(scope, median_s, 0.7)});
  job.flops = 0;
  job.bytes = job.footprint_bytes = 2000;
  job.series[0].flags = {"restored"};
  for (results::Repetition& r : job.series[0].repetitions) r.roof_s.clear();  // the ceilings decide
  annotate_roof({bandwidth("cpu", "copy", 1, 2000, 1e9), bandwidth("gpu", "copy", 1, 2000, 1e9),
                 results::testing::make_ceiling("gpu.launch", 8e-6, "s"),
                 results::testing::make_ceiling("gpu.empty_kernel", 1e-6, "s")},
                job);
  return job;
}
results::Job on_cpu(double median_s) { return copy_job("copy/cpu.tuned/f32/n:250", results::Scope::call, median_s); }
results::Job on_gpu(results::Scope scope, double median_s) {
  return copy_job("copy/cuda.tuned/f32/n:250", scope, median_s);
}

TEST(AnnotateRoof, SetsRoofFlagsAndVerdict) {
  const results::Job good = on_cpu(2.5e-6);
  EXPECT_EQ(good.series[0].roof->ceiling, "cpu.copy");
  EXPECT_NEAR(good.series[0].roof->fraction, 0.8, 1e-12);
  EXPECT_EQ(good.series[0].flags, Flags({"restored"}));
  EXPECT_TRUE(good.comparable);
  EXPECT_EQ(good.series[0].roof->source, results::RoofSource::run);
  EXPECT_TRUE(on_cpu(1.9e-6).comparable) << "ceilings of another moment accuse no row";
  EXPECT_EQ(on_cpu(5.1e-6).series[0].flags, Flags({"restored", "weak_cpu"}));
}

TEST(AnnotateRoof, AnAdjacentProbeDecidesWhereThereIsOne) {
  results::Job job = results::testing::make_job("copy/cpu.tuned/f32/n:250",
                                                {results::testing::make_series(results::Scope::call, 1e-6, 1.2)});
  job.flops = 0;
  job.bytes = job.footprint_bytes = 2000;
  annotate_roof({bandwidth("cpu", "copy", 1, 2000, 1e9)}, job);
  EXPECT_NEAR(job.series[0].roof->fraction, 1.2, 1e-12) << "not the 2 of the ceilings";
  EXPECT_EQ(job.series[0].roof->source, results::RoofSource::adjacent);
  EXPECT_NEAR(job.series[0].roof->value, 2000 / 1.2e-6, 1) << "the rate that the probe reached";
  EXPECT_EQ(job.series[0].flags, Flags({"suspect"}));
  EXPECT_FALSE(job.comparable);
}

TEST(AnnotateRoof, AProbeBelowTheCeilingAccusesNoRow) {
  // By its probe the row takes 1 / 1.2 of the time that memory needs; at the run's ceiling memory needs less.
  for (const auto& [ceiling, accused] : {std::pair(1.9e9, true), std::pair(2.1e9, false)}) {
    results::Job job = results::testing::make_job("copy/cpu.tuned/f32/n:250",
                                                  {results::testing::make_series(results::Scope::call, 1e-6, 1.2)});
    job.flops = 0;
    job.bytes = job.footprint_bytes = 2000;
    annotate_roof({bandwidth("cpu", "copy", 1, 2000, ceiling)}, job);
    EXPECT_EQ(job.comparable, !accused) << ceiling;
    EXPECT_EQ(results::has_disturbed_roof(job.series[0]), !accused) << "its share is not shown";
  }
}

TEST(AnnotateRoof, AProbeOfAGpuIsBelowTheCeilingByItsLaunch) {
  results::Job job = results::testing::make_job("copy/cuda.tuned/f32/n:250",
                                                {results::testing::make_series(results::Scope::kernel, 1e-6, 1.2)});
  job.flops = 0;
  job.bytes = job.footprint_bytes = 2000;
  annotate_roof({bandwidth("gpu", "copy", 1, 2000, 1e12)}, job, 50 << 20);
  EXPECT_EQ(job.series[0].flags, Flags({"suspect"}));
}

TEST(AnnotateRoof, AnAlgorithmOfFewerMultiplicationsIsComparedByThose) {
  const auto share_of = [](const char* algorithm) {
    results::Job job;
    job.plan.emplace().algorithm = algorithm;
    return share_of_multiplications(job);
  };
  EXPECT_EQ(share_of("F(2x2, 3x3), 10x32 tiles, k 64"), 16.0 / 36);
  EXPECT_EQ(share_of("F(3x3, 2x2), 17 parts"), 16.0 / 36);
  EXPECT_EQ(share_of("F(4x4, 3x3)"), 36.0 / 144);
  EXPECT_EQ(share_of("2:4 sparse, algorithm 3 of 7"), 0.5);
  for (const char* other : {"", "implicit GEMM, 14x32 tiles", "F(2x3, 3x3)", "F(0x0, 3x3)", "F(2x2"})
    EXPECT_EQ(share_of(other), 1) << other;
  EXPECT_EQ(share_of_multiplications({}), 1) << "no plan";
  // 1.8 times the peak by the formula; 0.8 of the multiplications that there are.
  const auto annotated = [](const char* algorithm, double bandwidth_value) {
    results::Job job = results::testing::make_job("conv2d/cpu.winograd/f32/n:1",
                                                  {results::testing::make_series(results::Scope::call, 1e-6, 1)});
    for (results::Repetition& r : job.series[0].repetitions) r.roof_s.clear();  // the ceilings decide
    job.flops = 1.8e5;
    job.bytes = job.footprint_bytes = 2000;
    job.plan.emplace().algorithm = algorithm;
    annotate_roof({bandwidth("cpu", "copy", 1, 2000, bandwidth_value), compute("cpu", "fma.f32", 1, 1e11)}, job);
    return job;
  };
  EXPECT_NEAR(annotated("implicit GEMM", 1e12).series[0].roof->fraction, 1.8, 1e-12);
  const results::Job job = annotated("F(2x2, 3x3), 10x32 tiles", 1e12);
  EXPECT_NEAR(job.series[0].roof->fraction, 0.8, 1e-12);
  EXPECT_EQ(job.series[0].roof->bound, Bound::compute);
  EXPECT_EQ(job.flops, 1.8e5) << "the rate that is shown is the formula's";
  // Memory takes 0.9 us, more than the 0.8 us of the multiplications and less than the 1.8 of the formula.
  const results::Job by_memory = annotated("F(2x2, 3x3)", 2000 / 0.9e-6);
  EXPECT_EQ(by_memory.series[0].roof->bound, Bound::memory);
  EXPECT_NEAR(by_memory.series[0].roof->fraction, 0.9, 1e-12);
}

TEST(AnnotateRoof, AProbeOfAPartlyCachedFootprintAccusesNoRow) {
  const int64_t cache_bytes = read_machine().last_level_bytes();
  if (cache_bytes == 0) GTEST_SKIP() << "this machine describes no cache";
  for (const auto& [footprint, accused] : {std::pair(cache_bytes / 4, true), std::pair(cache_bytes, false),
                                           std::pair(2 * cache_bytes, false), std::pair(8 * cache_bytes, true)}) {
    results::Job job = results::testing::make_job("copy/cpu.tuned/f32/n:250",
                                                  {results::testing::make_series(results::Scope::call, 1e-6, 1.2)});
    job.flops = 0;
    job.bytes = job.footprint_bytes = footprint;
    annotate_roof({bandwidth("cpu", "copy", 1, 2000, 1e9)}, job);
    EXPECT_EQ(job.comparable, !accused) << footprint;
    EXPECT_NEAR(job.series[0].roof->fraction, 1.2, 1e-12);
  }
}

TEST(AnnotateRoof, AProbeOfAFootprintThatAGpuKeepsInPartAccusesNoRow) {
  constexpr int64_t kCacheBytes = 50 << 20;
  for (const auto& [footprint, accused] : {std::pair(kCacheBytes / 4, true), std::pair(kCacheBytes, false),
                                           std::pair(2 * kCacheBytes, false), std::pair(8 * kCacheBytes, true)}) {
    results::Job job = results::testing::make_job("copy/cuda.tuned/f32/n:250",
                                                  {results::testing::make_series(results::Scope::kernel, 1e-3, 1.2)});
    job.flops = 0;
    job.bytes = job.footprint_bytes = footprint;
    results::Run run;
    run.ceilings = {bandwidth("gpu", "copy", 1, 2000, 1e9)};
    run.machine.gpu.emplace().l2_bytes = kCacheBytes;
    annotate_roof(run, job);
    EXPECT_EQ(job.comparable, !accused) << footprint;
    EXPECT_NEAR(job.series[0].roof->fraction, 1.2, 1e-12);
  }
}

TEST(WorkOf, AGpuWritesZerosAsOtherValues) {
  for (const auto& [job, pattern] :
       {std::pair("fill/cuda.tuned/f32/n:250", "write"), std::pair("fill/cpu.tuned/f32/n:250", "clear|write")}) {
    results::Job filled = results::testing::make_job(job, {});
    filled.pattern = "clear|write";
    EXPECT_EQ(work_of(filled, {}).pattern, pattern) << job;
  }
}

TEST(AnnotateRoof, AKernelIsComparedWithAnEmptyOneAndACallWithALaunch) {
  EXPECT_EQ(on_gpu(results::Scope::kernel, 2.9e-6).series[0].flags, Flags({"restored", "floor"}));
  EXPECT_EQ(on_gpu(results::Scope::kernel, 3.1e-6).series[0].flags, Flags({"restored"}));
  EXPECT_EQ(on_gpu(results::Scope::call, 23e-6).series[0].flags, Flags({"restored", "floor"}));
  EXPECT_EQ(on_gpu(results::Scope::call, 25e-6).series[0].flags, Flags({"restored"}));
}

TEST(AnnotateRoof, TheEndToEndScopeHasNoDeviceRoof) {
  EXPECT_FALSE(on_gpu(results::Scope::end_to_end, 1e-9).series[0].roof);
}

TEST(AnnotateRoof, FindsTheMathModeInTheDtype) {
  results::Job job = results::testing::make_job("gemm/cuda.cublas/f32/tf32/m:8",
                                                {results::testing::make_series(results::Scope::call, 1, 0.7)});
  job.flops = 1e15;
  job.dtype = "f32/tf32";
  annotate_roof(ceilings(), job);
  EXPECT_EQ(job.series[0].roof->ceiling, "gpu.mma.tf32");
  job.dtype = "f32";
  annotate_roof(ceilings(), job);
  EXPECT_EQ(job.series[0].roof->ceiling, "gpu.fma.f32");
}

TEST(AnnotateRoof, ProductsOfI8AreComparedWithTheirPeak) {
  std::vector<Ceiling> all = ceilings();
  Ceiling peak;
  peak.name = "gpu.mma.i8";
  peak.device = "gpu";
  peak.dtype = "i8";
  peak.value = 4e15;
  peak.unit = "OP/s";
  all.push_back(std::move(peak));
  results::Job job = results::testing::make_job("linear_int8/cuda.tuned/f32/n:8",
                                                {results::testing::make_series(results::Scope::call, 1, 0.7)});
  job.flops = 1e15;
  job.dtype = "f32/i8";
  annotate_roof(all, job);
  EXPECT_EQ(job.series[0].roof->ceiling, "gpu.mma.i8");
}

MachineInfo machine(int64_t last_level, int shared_by) {
  MachineInfo m;
  m.caches = {{1, "Data", 48 * kKiB, 1},
              {1, "Instruction", 32 * kKiB, 1},
              {2, "Unified", 2 * kMiB, 1},
              {3, "Unified", last_level, shared_by}};
  return m;
}

TEST(BandwidthFootprints, CoverTheCachesAndMemory) {
  constexpr int64_t kPlenty = int64_t{1} << 40;
  const auto full = bandwidth_footprints(machine(32 * kMiB, 8), 8, kPlenty, CeilingEffort::full);
  EXPECT_EQ(full.front(), 32 * kKiB);
  EXPECT_EQ(full.back(), 256 * kMiB);
  EXPECT_EQ(full.size(), 14u);  // 2^15 .. 2^28
  EXPECT_EQ(bandwidth_footprints(machine(32 * kMiB, 8), 32, kPlenty, CeilingEffort::full).back(),
            512 * kMiB);  // four such caches
  EXPECT_EQ(bandwidth_footprints(machine(32 * kMiB, 8), 2, kPlenty, CeilingEffort::quick),
            (std::vector<int64_t>{24 * kKiB, kMiB, 2 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB}));
  EXPECT_EQ(bandwidth_footprints(machine(256 * kMiB, 8), 2, kPlenty, CeilingEffort::quick).back(), 512 * kMiB);
  EXPECT_EQ(bandwidth_footprints(machine(256 * kMiB, 8), 2, kPlenty, CeilingEffort::smoke).back(), 256 * kMiB);
  EXPECT_EQ(bandwidth_footprints(MachineInfo{}, 1, kPlenty, CeilingEffort::quick).back(), 256 * kMiB);  // nothing known
  EXPECT_LE(bandwidth_footprints(machine(32 * kMiB, 8), 8, 512 * kMiB, CeilingEffort::full).back(), 128 * kMiB);
}

}  // namespace
}  // namespace duet::bench
