// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu_pass.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "core/machine.h"

namespace duet::bench {
namespace {
using Clock = std::chrono::steady_clock;

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr int64_t kUnitBytes = kUnit * int64_t{sizeof(float)};
constexpr int64_t kTask = 128 * kKiB, kSmallTask = 32 * kKiB;  // bytes of a usual task of an op
constexpr int64_t kMaxSerial = 2 * kMiB;   // beyond this footprint several threads are always faster than one
constexpr int64_t kSkew = 1280;            // bytes between arrays: equal low address bits make loads wait for stores
constexpr int64_t kMaxWindow = 32 * kMiB;  // of a footprint far beyond the caches, what one pass goes over
constexpr double kWakeUp_s = 20e-3;
constexpr double kComputeTask_s = 20e-6, kComputePass_s = 400e-6;  // long compared with a fork
constexpr int64_t kTasksPerThread = 4;                             // of a pass that is shorter than that
constexpr double kBarrierTimeout_s = 2e-3;  // a thread that takes longer to arrive has no free core

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int64_t last_level_bytes() {
  static const int64_t bytes = read_machine().last_level_bytes();
  return bytes;
}

// Of a footprint far beyond the caches a pass goes over the next part, in turn: nothing of it is still there when its
// turn comes again, and samples are short.
class MemoryPass final : public Pass {
 public:
  MemoryPass(CpuContext& cpu, PassMemory& memory, const MemoryLoop& loop, int64_t footprint, int64_t grain)
      : cpu_(cpu), memory_(memory), loop_(&loop), grain_(grain) {
    units_ = window_ = units_of(footprint, loop);
    ceiling = std::string("cpu.") + loop.pattern;
    footprint_bytes = array_bytes() * loop.arrays;
    if (far_beyond(footprint, last_level_bytes())) window_ = std::min(units_, units_of(kMaxWindow, loop));
    amount = static_cast<double>(window_ * kUnitBytes * loop.moves);
  }
  static int64_t units_of(int64_t footprint, const MemoryLoop& loop) {
    return std::max<int64_t>(1, footprint / loop.arrays / kUnitBytes);
  }
  void run() override {
    char* const begin = memory_.at_least(span());
    const auto array = [&](int i) { return reinterpret_cast<float*>(begin + i * (array_bytes() + kSkew)); };
    float *const x = array(0), *const y = array(1 % loop_->arrays), *const z = array(2 % loop_->arrays);
    if (next_ + window_ > units_) next_ = 0;
    const int64_t begin_unit = std::exchange(next_, next_ + window_);
    cpu_.parallel_for(window_, grain_, [&](int64_t first, int64_t last) {
      const int64_t at = (begin_unit + first) * kUnit;
      loop_->run(x + at, y + at, z + at, (last - first) * kUnit);
    });
  }
  void evict() override { cpu_.evict(memory_.at_least(span()), span()); }
  std::unique_ptr<Pass> resized(int64_t footprint) const override {
    const int64_t units = units_of(footprint, *loop_);
    int64_t grain = std::min(grain_, units);
    if (grain_ == units_) grain = units;  // one task
    if (grain_ == per_thread(cpu_, units_)) grain = per_thread(cpu_, units);
    return std::make_unique<MemoryPass>(cpu_, memory_, *loop_, footprint, grain);
  }
  static int64_t per_thread(const CpuContext& cpu, int64_t units) {
    return (units + cpu.threads() - 1) / cpu.threads();
  }

 private:
  int64_t array_bytes() const { return units_ * kUnitBytes; }
  int64_t span() const { return loop_->arrays * (array_bytes() + kSkew); }

  CpuContext& cpu_;
  PassMemory& memory_;
  const MemoryLoop* loop_;
  int64_t grain_, units_ = 0, window_ = 0, next_ = 0;  // window: units of one run
};

class ComputePass final : public Pass {
 public:
  // tasks: into how many a pass is split that is shortened to max_operations.
  ComputePass(CpuContext& cpu, ComputeLoop loop, const std::string& dtype, double max_operations, int64_t tasks)
      : cpu_(cpu), loop_(std::move(loop)) {
    ceiling = "cpu.fma." + dtype;
    // The shortest of a few: one that another process interrupted would end the search too early.
    for (double took = 0; took < kComputeTask_s; rounds_ *= 2) {
      took = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 3; ++i) {
        const auto start = Clock::now();
        loop_.run(rounds_);
        took = std::min(took, since(start));
      }
    }
    tasks_ = cpu.threads() * static_cast<int64_t>(kComputePass_s / kComputeTask_s);
    if (loop_.operations * static_cast<double>(rounds_ * tasks_) > max_operations) {
      tasks_ = tasks;
      rounds_ =
          std::max<int64_t>(1, static_cast<int64_t>(max_operations / loop_.operations / static_cast<double>(tasks)));
    }
    amount = loop_.operations * static_cast<double>(rounds_ * tasks_);
  }
  void run() override {
    cpu_.parallel_for(tasks_, 1, [&](int64_t first, int64_t last) { loop_.run((last - first) * rounds_); });
  }

 private:
  CpuContext& cpu_;
  ComputeLoop loop_;
  int64_t rounds_ = 500, tasks_ = 1;  // rounds of a task
};

// Sizes of a task, in units: one task a thread, tasks of the usual sizes, and a single task where the footprint is so
// small that a fork may cost more than it saves.
std::set<int64_t> grains(const CpuContext& cpu, int64_t units, int64_t footprint) {
  if (cpu.threads() == 1) return {units};
  std::set<int64_t> grains{MemoryPass::per_thread(cpu, units), std::min(units, kTask / kUnitBytes),
                           std::min(units, kSmallTask / kUnitBytes)};
  if (footprint <= kMaxSerial) grains.insert(units);
  return grains;
}

}  // namespace

int64_t CpuPasses::cache_bytes() const { return last_level_bytes(); }

std::vector<std::unique_ptr<Pass>> CpuPasses::memory(std::string_view patterns, int64_t footprint) {
  static const std::vector<MemoryLoop> loops = memory_loops();
  std::vector<std::unique_ptr<Pass>> passes;
  for (const MemoryLoop& loop : loops) {
    if (!serves(patterns, loop.pattern)) continue;
    for (const int64_t grain : grains(cpu_, MemoryPass::units_of(footprint, loop), footprint))
      passes.push_back(std::make_unique<MemoryPass>(cpu_, memory_, loop, footprint, grain));
  }
  wake_threads(cpu_, kWakeUp_s);
  wait_for_speed();
  return passes;
}

std::vector<std::unique_ptr<Pass>> CpuPasses::compute(const std::string& dtype, double max_operations) {
  std::vector<std::unique_ptr<Pass>> passes;
  // A short pass: a single task where a fork costs more than it saves, one for each thread, or more, to even out.
  std::set<int64_t> task_counts{1};
  if (std::isfinite(max_operations)) task_counts.insert({cpu_.threads(), kTasksPerThread * cpu_.threads()});
  for (const ComputeLoop& loop : compute_loops())
    if (std::find(loop.dtypes.begin(), loop.dtypes.end(), dtype) != loop.dtypes.end())
      for (const int64_t tasks : task_counts)
        passes.push_back(std::make_unique<ComputePass>(cpu_, loop, dtype, max_operations, tasks));
  wake_threads(cpu_, kWakeUp_s);
  wait_for_speed();
  return passes;
}

bool run_on_all_threads(CpuContext& cpu, const std::function<void()>& work) {
  std::atomic<int64_t> arrived{0};
  std::atomic<bool> all_arrived{true};
  cpu.parallel_for(cpu.threads(), 1, [&](int64_t first, int64_t last) {
    arrived += last - first;
    for (const auto start = Clock::now(); arrived < cpu.threads() && all_arrived;)
      if (since(start) > kBarrierTimeout_s) all_arrived = false;
    for (int64_t i = first; i < last; ++i) work();
  });
  return all_arrived;
}

double wake_threads(CpuContext& cpu, double max_s) {
  const auto start = Clock::now();
  while (since(start) < max_s && !run_on_all_threads(cpu, [] {})) {
  }
  return since(start);
}

}  // namespace duet::bench
