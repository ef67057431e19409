// SPDX-License-Identifier: Apache-2.0
// What a case's counters hold: a window of its own, of a machine whose energy rises with each application.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "bench/case_timer.h"
#include "results/rules.h"
#include "tests/measure/fake_gpu.h"
#include "tests/results/fixture.h"

namespace duet::bench {
namespace {

using ::testing::HasSubstr;

constexpr double kJoules = 0.25;  // of an application

struct Machine {
  results::testing::Scratch scratch;
  double energy_uj = 0;
  Machine() {
    std::filesystem::create_directories(zone());
    std::ofstream(zone() + "/name") << "package-0";
    std::ofstream(zone() + "/max_energy_range_uj") << 1'000'000'000;
    show();
  }
  std::string root() const { return (scratch / "root").string(); }
  std::string zone() const { return root() + "/sys/class/powercap/intel-rapl:0"; }
  void show() const {  // never half written
    std::ofstream(zone() + "/next") << static_cast<int64_t>(energy_uj);
    std::filesystem::rename(zone() + "/next", zone() + "/energy_uj");
  }
};

struct Behaviour {
  bool restores = false, wrong_in_window = false;
};

class Heater final : public Runner {
 public:
  Heater(FakeGpu& gpu, Machine& machine, Behaviour behaviour) : gpu_(gpu), machine_(machine), behaviour_(behaviour) {}
  Context& context() override { return gpu_; }
  void run(int) override {
    applied_ = true;
    if (gpu_.inside_device_time) return;  // a timed sample, or calibration
    machine_.energy_uj += kJoules * 1e6;
    machine_.show();
    in_window_ = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  bool restores() const override { return behaviour_.restores; }
  void evict() override {}
  Check verify(bool) override {
    Check check;
    if (!applied_) check.failure = "nothing was run";
    if (behaviour_.wrong_in_window && in_window_) check.failure = "element 3 is 0";
    return check;
  }
  void begin_repetition(int, int) override { in_window_ = applied_ = false; }

 private:
  FakeGpu& gpu_;
  Machine& machine_;
  Behaviour behaviour_;
  bool in_window_ = false, applied_ = false;
};

struct OneSide final : BenchCase {
  Machine& machine;
  Behaviour behaviour;
  OneSide(Machine& m, Behaviour b) : machine(m), behaviour(b) {
    op = "op";
    label = dtype = "f32";
    math = "ieee";
    sides = {{"cuda.heater", "op/cuda.heater/f32", Device::cuda, ""}};
  }
  void prepare(uint64_t) override {}
  void release() override {}
  std::unique_ptr<Runner> make(const Side&, Context& context, std::string&) override {
    return std::make_unique<Heater>(static_cast<FakeGpu&>(context), machine, behaviour);
  }
  std::string repro(const Side&) const override { return "again"; }
};

results::Job measured(Machine& machine, const Behaviour& behaviour, bool counters = true) {
  Options options;
  options.cpu = false;
  options.counters = counters;
  options.scopes = {"kernel"};
  options.repetitions = 3;
  options.min_time_s = 0.01;
  Devices devices;
  auto gpu = std::make_unique<FakeGpu>();
  gpu->device_s = 10e-3;
  devices.gpu = std::move(gpu);
  const std::vector<Ceiling> no_ceilings;
  OneSide one_side(machine, behaviour);
  std::vector<results::Job> jobs =
      CaseTimer(options, devices, no_ceilings, machine_counters(machine.root())).measure(one_side);
  return jobs.at(0);
}

TEST(CountersOfAJob, AreTakenInAWindowOfTheirOwn) {
  Machine machine;
  results::Job job = measured(machine, {});
  ASSERT_EQ(job.status, results::Status::ok) << job.reason;
  ASSERT_TRUE(job.counters);
  EXPECT_EQ(job.counters->scope, results::Scope::kernel);
  ASSERT_TRUE(job.counters->window);
  EXPECT_GE(job.counters->window->time_s, results::kMinCounterWindow_s);
  ASSERT_TRUE(job.counters->value_of(Quantity::cpu_energy_j));
  EXPECT_NEAR(*job.counters->value_of(Quantity::cpu_energy_j), kJoules, 1e-9);
  EXPECT_FALSE(job.counters->value_of(Quantity::gpu_energy_j));
  results::set_verdict(job);
  EXPECT_NO_THROW(results::require_valid(job));
}

TEST(CountersOfAJob, AreNotThereUnlessAskedFor) {
  Machine machine;
  EXPECT_FALSE(measured(machine, {}, false).counters);
}

TEST(CountersOfAJob, ThatIsRestoredBetweenApplicationsHaveNoWindow) {
  Machine machine;
  const results::Job job = measured(machine, {.restores = true});
  ASSERT_TRUE(job.counters);
  EXPECT_FALSE(job.counters->window);
  EXPECT_FALSE(job.counters->value_of(Quantity::cpu_energy_j));
  const results::Reading& energy = job.counters->readings.at(2);
  EXPECT_EQ(energy.quantity, Quantity::cpu_energy_j);
  EXPECT_THAT(energy.unavailable_reason, HasSubstr("inout tensors are restored"));
}

TEST(CountersOfAJob, HaveReasonsAloneWhereTheMachineCountsNothing) {
  Machine machine;
  std::filesystem::remove(machine.zone() + "/name");
  const results::Job job = measured(machine, {});
  EXPECT_EQ(job.status, results::Status::ok) << job.reason;
  ASSERT_TRUE(job.counters);
  EXPECT_FALSE(job.counters->window);
  EXPECT_EQ(job.counters->readings.size(), 4u);
}

// The buffers of an op are verified after its window, as after a repetition.
TEST(CountersOfAJob, OfAnOpAndAStepAreVerified) {
  Machine machine;
  const std::jthread heat([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      machine.energy_uj += 1e6;
      machine.show();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  Options options;
  options.preset = Preset::smoke;
  options.gpu = false;
  options.counters = true;
  options.cases = read_named_cases({"softmax rows:64 cols:100", "step/mlp batch:3"});
  options.implementations = {"cpu.tuned", "cpu"};
  Devices devices;
  devices.cpu = std::make_unique<CpuContext>(2);
  const std::vector<Ceiling> no_ceilings;
  CaseTimer timer(options, devices, no_ceilings, machine_counters(machine.root()));
  int counted = 0;
  for (const auto& c : select_cases(options))
    for (const results::Job& job : timer.measure(*c)) {
      EXPECT_EQ(job.status, results::Status::ok) << job.name << ": " << job.reason;
      ASSERT_TRUE(job.counters) << job.name;
      EXPECT_GT(job.counters->value_of(Quantity::cpu_energy_j).value_or(0), 0) << job.name;
      ++counted;
    }
  EXPECT_EQ(counted, 2);
}

TEST(CountersOfAJob, AreDroppedWithAWrongResult) {
  Machine machine;
  const results::Job job = measured(machine, {.wrong_in_window = true});
  EXPECT_EQ(job.status, results::Status::failed);
  EXPECT_THAT(job.reason, HasSubstr("element 3 is 0"));
  EXPECT_FALSE(job.counters);
}

}  // namespace
}  // namespace duet::bench
