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
// only after one more attempt at a repetition, through which something else runs as well.
class SlowAtFirst final : public Runner {
 public:
  SlowAtFirst(FakeGpu& gpu, int slow_attempts) : gpu_(gpu), slow_attempts_(slow_attempts) {
    gpu_.device_s = kDisturbed_s;
  }
  Context& context() override { return gpu_; }
  void run(int) override {}
  void evict() override {}
  void begin_repetition(int, int) override {
    if (++attempts_ > slow_attempts_) gpu_.device_s = kApplication_s;
  }
  void before_sample(int, int) override {
    if (attempts_ <= slow_attempts_) work_elsewhere(0.04);
  }
  Check verify(bool) override { return {}; }

 private:
  FakeGpu& gpu_;
  int slow_attempts_, attempts_ = 0;
};

struct OneSide final : BenchCase {
  explicit OneSide(int slow_attempts) : slow_attempts_(slow_attempts) {
    op = "op";
    label = dtype = "f32";
    math = "ieee";
    sides = {{"cuda.slow_at_first", "op/cuda.slow_at_first/f32", Device::cuda, ""}};
  }
  void prepare(uint64_t) override {}
  void release() override {}
  std::unique_ptr<Runner> make(const Side&, Context& context, std::string&) override {
    return std::make_unique<SlowAtFirst>(static_cast<FakeGpu&>(context), slow_attempts_);
  }
  std::string repro(const Side&) const override { return ""; }

 private:
  int slow_attempts_;
};

void expect_long_repetitions(int slow_attempts) {
  Options options;
  options.cpu = false;
  options.scopes = {"kernel"};
  options.repetitions = 3;
  options.min_time_s = 0.01;
  Devices devices;
  devices.gpu = std::make_unique<FakeGpu>();
  const std::vector<Ceiling> no_ceilings;
  OneSide one_side(slow_attempts);
  const std::vector<results::Job> jobs = CaseTimer(options, devices, no_ceilings).measure(one_side);
  ASSERT_EQ(jobs.size(), 1u);
  ASSERT_EQ(jobs[0].status, results::Status::ok) << jobs[0].reason;
  const results::Series& series = jobs[0].series.at(0);
  EXPECT_GT(series.iterations, 10) << "as many as were calibrated";
  EXPECT_EQ(series.repetitions.size(), 3u);
  for (const results::Repetition& r : series.repetitions) {
    double time_s = 0;
    for (const double sample_s : r.samples_s) time_s += sample_s * static_cast<double>(series.batch);
    EXPECT_EQ(static_cast<int64_t>(r.samples_s.size()) % series.iterations, 0) << "more where attempts were disturbed";
    EXPECT_GE(time_s, 0.999 * *options.min_time_s);
  }
}

TEST(Repetitions, AreLongEnoughAfterADisturbedCalibration) { expect_long_repetitions(0); }
TEST(Repetitions, AreLongEnoughAfterADisturbedAttempt) { expect_long_repetitions(1); }

}  // namespace
}  // namespace duet::bench
