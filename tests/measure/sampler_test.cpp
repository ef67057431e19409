// SPDX-License-Identifier: Apache-2.0
// How much a series takes: the budget of a repetition is filled by at most 100 samples, whatever an application takes
// and however few may follow each other.
#include "bench/sampler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/cpu_context.h"
#include "core/registry.h"
#include "core/session.h"
#include "ops/optimiser/sgd.h"
#include "tests/measure/fake_gpu.h"

namespace duet::bench {
namespace {

// An application that spins for a given time.
class Spinner final : public Runner {
 public:
  Spinner(double application_s, int copies, bool restores)
      : application_s_(application_s), copies_(copies), restores_(restores) {}
  Context& context() override { return cpu_; }
  void run(int) override {
    ++runs;
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < application_s_) {
    }
  }
  int copies() const override { return copies_; }
  bool restores() const override { return restores_; }
  void restore() override {
    max_runs_between_restores = std::max(max_runs_between_restores, runs - runs_at_restore_);
    runs_at_restore_ = runs;
  }
  void evict() override { ++evictions; }
  Check verify(bool) override { return {}; }

  int runs = 0, evictions = 0, max_runs_between_restores = 0;

 private:
  CpuContext cpu_{1};
  double application_s_;
  int copies_, runs_at_restore_ = 0;
  bool restores_;
};

void expect_budget_filled(const Sampler::Counts& counts, double budget_s) {
  EXPECT_LE(counts.samples, 100);
  EXPECT_GE(counts.samples, 10);
  EXPECT_GT(counts.sample_s * counts.samples, 0.5 * budget_s);
}

TEST(Sampler, ShortApplicationsFillTheBudgetWithLargerSamples) {
  Spinner runner(5e-6, 1, false);
  Sampler sampler(runner, Scope::call, Cache::warm, clock_read_s());
  const Sampler::Counts counts = sampler.calibrate(0.2, 3);
  expect_budget_filled(counts, 0.2);
  EXPECT_GT(sampler.applications(), 40) << "2 ms a sample";
  const int before = runner.runs;
  sampler.sample();
  EXPECT_EQ(runner.runs - before, sampler.applications());
}

// An application of 20 us on a machine that, while it is calibrated, gives it a core only every tenth time. Counted,
// not measured: the test has a clock of its own in what it says that a repetition took.
TEST(Sampler, ADisturbedCalibrationIsMadeUpForAfterTheFirstRepetition) {
  constexpr double kBudget_s = 0.05, kApplication_s = 20e-6;
  Spinner runner(10 * kApplication_s, 1, false);
  Sampler sampler(runner, Scope::call, Cache::warm, clock_read_s());
  const Sampler::Counts disturbed = sampler.calibrate(kBudget_s, 3);
  const auto repetition_s = [&] { return kApplication_s * sampler.applications() * sampler.counts().samples; };
  ASSERT_LT(repetition_s(), 0.2 * kBudget_s);
  EXPECT_TRUE(sampler.grow(kBudget_s, repetition_s()));
  EXPECT_GE(repetition_s(), kBudget_s);
  EXPECT_LE(repetition_s(), 1.5 * kBudget_s);
  EXPECT_LE(sampler.counts().samples, 100);
  EXPECT_EQ(sampler.counts().repetitions, disturbed.repetitions);
  EXPECT_FALSE(sampler.grow(kBudget_s, repetition_s())) << "now it is filled";
  EXPECT_FALSE(sampler.grow(kBudget_s, 5 * kBudget_s)) << "a slow repetition is no reason";
}

TEST(Sampler, FewLongSamplesGrowInNumberFirst) {
  Spinner runner(2e-3, 1, false);
  Sampler sampler(runner, Scope::call, Cache::warm, clock_read_s());
  const int samples = sampler.calibrate(0.05, 3).samples;
  ASSERT_EQ(sampler.applications(), 1);
  EXPECT_TRUE(sampler.grow(0.05, 0.05 / 2));
  EXPECT_GE(sampler.counts().samples, samples * 3 / 2);
  EXPECT_EQ(sampler.applications(), 1);
}

// Restoring takes so long that samples stay short on purpose.
TEST(Sampler, WhatIsShortOnPurposeDoesNotGrow) {
  class Restorer final : public Runner {
   public:
    Context& context() override { return cpu; }
    void run(int) override { spin(2e-6); }
    bool restores() const override { return true; }
    void restore() override { spin(1e-3); }
    void evict() override {}
    Check verify(bool) override { return {}; }
    static void spin(double time_s) {
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < time_s) {
      }
    }
    CpuContext cpu{1};
  } runner;
  Sampler sampler(runner, Scope::call, Cache::warm, clock_read_s());
  const Sampler::Counts counts = sampler.calibrate(0.05, 1);
  const double repetition_s = counts.sample_s * counts.samples;
  ASSERT_LT(repetition_s, 0.5 * 0.05);
  EXPECT_FALSE(sampler.grow(0.05, repetition_s));
}

// The clock of a GPU that was idle while the CPU's side ran is low.
TEST(Sampler, AGpuWorksBeforeARepetition) {
  class OnTheGpu final : public Runner {
   public:
    Context& context() override { return gpu; }
    void run(int) override { ++runs; }
    void refreshed() override { ++uploads; }
    void evict() override {}
    Check verify(bool) override { return {}; }
    FakeGpu gpu;
    int64_t runs = 0, uploads = 0;
  } runner;
  for (const Scope scope : {Scope::kernel, Scope::call, Scope::end_to_end}) {
    Sampler sampler(runner, scope, Cache::warm, clock_read_s());
    sampler.calibrate(0.01, 1);
    const int64_t runs = runner.runs, uploads = runner.uploads;
    const auto start = std::chrono::steady_clock::now();
    sampler.wake(0.025);
    EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.02);
    EXPECT_GT(runner.runs, runs);
    EXPECT_EQ(runner.uploads, uploads) << "of inputs that another series has replaced";
  }
  // Not longer than what is timed: the shortest of a few tries, as any of them may be interrupted.
  Sampler sampler(runner, Scope::call, Cache::warm, clock_read_s());
  sampler.calibrate(0.001, 1);
  double shortest_s = 1;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    sampler.wake(0.001);
    shortest_s = std::min(shortest_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(shortest_s, 0.02);

  Spinner on_the_cpu(5e-6, 1, false);
  Sampler other(on_the_cpu, Scope::call, Cache::warm, clock_read_s());
  other.calibrate(0.01, 1);
  const int idle = on_the_cpu.runs;
  other.wake(0.025);
  EXPECT_EQ(on_the_cpu.runs, idle) << "a CPU is busy all the time";
}

// By a clock of its own: 1.2 s an application.
TEST(Sampler, LongApplicationsFillTheBudget) {
  class OnTheGpu final : public Runner {
   public:
    Context& context() override { return gpu; }
    void run(int) override {}
    void evict() override {}
    Check verify(bool) override { return {}; }
    FakeGpu gpu;
  } runner;
  runner.gpu.device_s = 1.2;
  Sampler sampler(runner, Scope::kernel, Cache::warm, clock_read_s());
  EXPECT_EQ(sampler.calibrate(5, 5).samples, 5) << "6 s";
  EXPECT_EQ(sampler.counts().repetitions, 3);
  EXPECT_EQ(sampler.calibrate(0.5, 5).samples, 1);
}

TEST(Sampler, RestoredDataAreAppliedOnceAndTheBudgetIsStillFilled) {
  Spinner runner(20e-6, 4, true);
  Sampler sampler(runner, Scope::call, Cache::warm, clock_read_s());
  const Sampler::Counts counts = sampler.calibrate(0.1, 3);
  expect_budget_filled(counts, 0.1);
  EXPECT_LE(counts.batch, 4);
  EXPECT_GT(counts.groups, 1);
  sampler.sample();
  EXPECT_LE(runner.max_runs_between_restores, 4);
}

TEST(Sampler, AColdSampleEvictsBeforeEachApplication) {
  Spinner runner(50e-6, 1, false);
  Sampler sampler(runner, Scope::call, Cache::cold, clock_read_s());
  Sampler::Counts counts = sampler.calibrate(0.05, 1);
  for (int i = 0; counts.groups == 1 && i < 20; ++i) counts = sampler.calibrate(0.05, 1);  // it was interrupted
  EXPECT_EQ(counts.batch, 1);
  EXPECT_GT(counts.groups, 1);
  const int runs = runner.runs, evictions = runner.evictions;
  sampler.sample();
  EXPECT_EQ(runner.runs - runs, counts.groups);
  EXPECT_EQ(runner.evictions - evictions, counts.groups);
}

// --- a GPU's queue

// Its first run takes 3 ms on the host, as where modules are loaded.
class Launcher final : public Runner {
 public:
  explicit Launcher(FakeGpu& gpu) : gpu_(&gpu) {}
  Context& context() override { return *gpu_; }
  void run(int) override {
    if (!started_) {
      first_in_queue = gpu_->inside_device_time;
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    started_ = true;
  }
  void evict() override {}
  Check verify(bool) override { return {}; }
  bool first_in_queue = false;

 private:
  FakeGpu* gpu_;
  bool started_ = false;
};

TEST(SamplerOnAGpu, TheFirstCallIsTimedByTheWallClockAndNotInABlockedQueue) {
  FakeGpu gpu;
  Launcher runner(gpu);
  Sampler sampler(runner, Scope::kernel, Cache::warm, clock_read_s());
  sampler.calibrate(0.002, 1);
  EXPECT_GE(sampler.first_call_s(), 3e-3) << "not the device's time, 200 us";
  EXPECT_FALSE(runner.first_in_queue);
}

TEST(SamplerOnAGpu, ASeriesKeepsItsFunctionAlsoWhereSeriesTakeTurns) {
  FakeGpu gpu;
  Launcher a(gpu), b(gpu);
  Sampler of_a(a, Scope::kernel, Cache::warm, clock_read_s()), of_b(b, Scope::kernel, Cache::warm, clock_read_s());
  of_a.calibrate(0.002, 1);
  const auto* run_a = gpu.last_run;
  of_b.calibrate(0.002, 1);
  const auto* run_b = gpu.last_run;
  EXPECT_NE(run_a, run_b);
  for (int turn = 0; turn < 2; ++turn) {
    of_a.sample();
    EXPECT_EQ(gpu.last_run, run_a) << "by which the queue knows how many launches a run has";
    of_b.sample();
    EXPECT_EQ(gpu.last_run, run_b);
  }
}

// To take a sample costs the host about as much as 100 applications of a short kernel.
TEST(SamplerOnAGpu, ASampleLastsAMillisecond) {
  FakeGpu gpu;
  gpu.device_s = 4e-6;
  Launcher runner(gpu);
  Sampler sampler(runner, Scope::kernel, Cache::warm, clock_read_s());
  const Sampler::Counts counts = sampler.calibrate(0.0245, 3);
  EXPECT_NEAR(counts.batch, 250, 1);
  EXPECT_EQ(counts.samples, 25);
}

TEST(SamplerOnAGpu, OnlySamplesTellThatAJobWaitsForTheDevice) {
  FakeGpu gpu;
  Launcher runner(gpu);
  Sampler sampler(runner, Scope::kernel, Cache::warm, clock_read_s());
  gpu.waits = true;
  sampler.calibrate(0.002, 1);
  gpu.waits = false;
  sampler.sample();
  EXPECT_FALSE(sampler.synchronises());
  gpu.waits = true;
  sampler.sample();
  gpu.waits = false;
  sampler.sample();
  EXPECT_TRUE(sampler.synchronises()) << "one sample is enough";
}

TEST(SessionOnAGpu, AColdSampleSweepsTheCacheOnceHoweverManyBuffersThereAre) {
  FakeGpu gpu;
  const Sgd problem{.n = 1000, .dtype = DType::f32};
  const auto plan = [](registration::PlanFunction::Any, const void*, Context&) { return Plan([](Args) {}); };
  const Implementation nothing{"sgd", "cuda.nothing", Device::cuda, {nullptr, plan}};
  const Problem sgd = Problem::of(problem);
  const HostTensors inputs = draw_inputs(sgd, FillMode::values, 1);
  Session session(sgd, nothing, gpu, inputs, 4);
  session.evict();
  EXPECT_EQ(gpu.evictions, 1);
}

}  // namespace
}  // namespace duet::bench
