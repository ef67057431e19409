// SPDX-License-Identifier: Apache-2.0
// What a repetition of a case holds, by a clock that is the test's: that of a GPU which is not one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string>

#include "bench/case_timer.h"
#include "core/cpu_context.h"
#include "tests/measure/fake_gpu.h"
#include "tests/results/fixture.h"

namespace duet::bench {
namespace {

constexpr double kDisturbed_s = 2e-3, kApplication_s = 20e-6;

// Another process that works for a while.
void work_elsewhere(double cpu_s) {
  const pid_t child = fork();
  if (child == 0) {
    while (static_cast<double>(std::clock()) / CLOCKS_PER_SEC < cpu_s) continue;
    _exit(0);
  }
  ASSERT_GT(child, 0);
  waitpid(child, nullptr, 0);
}

// An application takes 2 ms until it has been calibrated, as where something else runs, and 20 us from then on; or
// only after slow_attempts attempts at a repetition. Through `worked` of them something else runs as well.
class SlowAtFirst final : public Runner {
 public:
  SlowAtFirst(FakeGpu& gpu, int slow_attempts, int worked) : gpu_(gpu), slow_attempts_(slow_attempts), worked_(worked) {
    gpu_.device_s = kDisturbed_s;
  }
  Context& context() override { return gpu_; }
  void run(int) override {}
  void evict() override {}
  void begin_repetition(int, int) override {
    if (++attempts_ > slow_attempts_) gpu_.device_s = kApplication_s;
  }
  void before_sample(int index, int count) override {
    if (attempts_ <= worked_) work_elsewhere(0.04);
    EXPECT_LT(index, count);
    last_ = index + 1 == count;
  }
  void after_sample(int index, int count) override { EXPECT_EQ(index + 1 == count, last_); }
  Check verify(bool) override {
    EXPECT_TRUE(last_) << "what is verified are the outputs of the sample that was told to be the last";
    return {};
  }

 private:
  FakeGpu& gpu_;
  int slow_attempts_, worked_, attempts_ = 0;
  bool last_ = false;
};

struct OneSide final : BenchCase {
  OneSide(int slow_attempts, int worked) : slow_attempts_(slow_attempts), worked_(worked) {
    op = "op";
    label = dtype = "f32";
    math = "ieee";
    sides = {{"cuda.slow_at_first", "op/cuda.slow_at_first/f32", Device::cuda, ""}};
  }
  void prepare(uint64_t) override {}
  void release() override {}
  std::unique_ptr<Runner> make(const Side&, Context& context, std::string&) override {
    return std::make_unique<SlowAtFirst>(static_cast<FakeGpu&>(context), slow_attempts_, worked_);
  }
  std::string repro(const Side&) const override { return ""; }

 private:
  int slow_attempts_, worked_;
};

results::Series measured(int slow_attempts, int worked, double min_time_s) {
  Options options;
  options.cpu = false;
  options.scopes = {"kernel"};
  options.repetitions = 3;
  options.min_time_s = min_time_s;
  Devices devices;
  devices.gpu = std::make_unique<FakeGpu>();
  const std::vector<Ceiling> no_ceilings;
  OneSide one_side(slow_attempts, worked);
  const std::vector<results::Job> jobs = CaseTimer(options, devices, no_ceilings).measure(one_side);
  EXPECT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs.at(0).status, results::Status::ok) << jobs.at(0).reason;
  EXPECT_EQ(jobs.at(0).series.at(0).repetitions.size(), 3u);
  return jobs.at(0).series.at(0);
}

double samples_s(const results::Series& series, size_t repetition) {
  double time_s = 0;
  for (const double sample_s : series.repetitions.at(repetition).samples_s)
    time_s += sample_s * static_cast<double>(series.batch);
  return time_s;
}

void expect_long_repetitions(int slow_attempts) {
  constexpr double kMinTime_s = 0.01;
  const results::Series series = measured(slow_attempts, slow_attempts, kMinTime_s);
  EXPECT_GT(series.iterations, 10) << "as many as were calibrated";
  for (size_t i = 0; i < series.repetitions.size(); ++i) {
    EXPECT_EQ(static_cast<int64_t>(series.repetitions[i].samples_s.size()) % series.iterations, 0)
        << "more where attempts were disturbed";
    EXPECT_GE(samples_s(series, i), 0.999 * kMinTime_s);
  }
}

TEST(Repetitions, AreLongEnoughAfterADisturbedCalibration) { expect_long_repetitions(0); }
TEST(Repetitions, AreLongEnoughAfterADisturbedAttempt) { expect_long_repetitions(1); }

// The first repetition is as slow as calibration was, so that it fixes few samples for those after it.
TEST(Repetitions, HaveMoreSamplesWhereTheMachineBecomesFasterAfterTheFirst) {
  const results::Series series = measured(1, 0, 0.03);
  ASSERT_EQ(series.iterations, 15);
  EXPECT_EQ(series.repetitions[0].samples_s.size(), 15u);
  EXPECT_EQ(series.repetitions[1].samples_s.size(), 45u) << "100 times as fast: no more than three times as many";
  EXPECT_EQ(series.repetitions[2].samples_s.size(), 45u);
}

// A row of 1 MiB of the CPU whose roof is probed. It notes what is applied outside samples where that matters.
struct ProbedRow final : BenchCase {
  struct Row final : Runner {
    explicit Row(ProbedRow& of) : of_(of) {}
    Context& context() override { return of_.cpu_; }
    void run(int) override { ++runs_; }
    void evict() override {}
    void begin_repetition(int, int) override { runs_ = 0; }
    void before_sample(int index, int) override { of_.before_first += index == 0 ? runs_ : 0; }
    void after_sample(int, int) override { runs_ = 0; }
    Check verify(bool) override {
      of_.behind_last += runs_;
      return {};
    }
    ProbedRow& of_;
    int64_t runs_ = 0;
  };
  explicit ProbedRow(CpuContext& cpu) : cpu_(cpu) {
    op = "op";
    label = dtype = "f32";
    math = "ieee";
    pattern = "copy";
    bytes = footprint_bytes = 1 << 20;
    sides = {{"cpu.tuned", "op/cpu.tuned/f32", Device::cpu, ""}};
  }
  void prepare(uint64_t) override {}
  void release() override {}
  std::unique_ptr<Runner> make(const Side&, Context&, std::string&) override { return std::make_unique<Row>(*this); }
  std::string repro(const Side&) const override { return ""; }

  int64_t before_first = 0, behind_last = 0;  // applications since the repetition began; since its last sample

 private:
  CpuContext& cpu_;
};

// Between slices, the row is applied after the probe. It must not be where an application would write the outputs that
// the first sample has to write, or those of the last sample, which are verified.
TEST(Repetitions, TheProbeAppliesTheRowNeitherBeforeTheFirstSampleNorAfterTheLast) {
  Options options;
  options.repetitions = 3;
  options.min_time_s = 0.005;
  Devices devices;
  devices.cpu = std::make_unique<CpuContext>(1);
  devices.no_gpu = "not wanted";
  const std::vector<Ceiling> ceilings{results::testing::make_ceiling("cpu.copy", 1e10, "B/s", 1 << 20)};
  ProbedRow row(*devices.cpu);
  const std::vector<results::Job> jobs = CaseTimer(options, devices, ceilings).measure(row);
  ASSERT_EQ(jobs.at(0).status, results::Status::ok) << jobs.at(0).reason;
  ASSERT_FALSE(jobs[0].series.at(0).repetitions.at(0).roof_s.empty()) << "it was probed";
  EXPECT_EQ(row.before_first, 0);
  EXPECT_EQ(row.behind_last, 0);
}

}  // namespace
}  // namespace duet::bench
