// SPDX-License-Identifier: Apache-2.0
// Start reading at Measurement::run().
#include "bench/cpu_ceilings.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "bench/cpu_loops.h"
#include "bench/sampler.h"
#include "core/cpu_context.h"

namespace duet::bench {
namespace {
using Clock = std::chrono::steady_clock;

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr int64_t kMinMemory = 256 * kMiB, kMaxMemory = 2048 * kMiB;
constexpr int64_t kUnitBytes = kUnit * int64_t{sizeof(float)};
constexpr int64_t kTask = 128 * kKiB;     // bytes of a usual task of an op
constexpr int64_t kMaxSerial = 2 * kMiB;  // beyond this footprint several threads are always faster than one
constexpr int64_t kSkew = 1280;           // bytes between arrays: equal low address bits make loads wait for stores
constexpr double kSample_s = 20e-6, kClockReads = 500, kComputeSample_s = 500e-6;
constexpr double kBarrierTimeout_s = 2e-3;  // a thread that takes longer to arrive has no free core
constexpr double kWarmUp_s = 0.3;  // for waking threads in the whole measurement; beyond it the machine is busy

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The best value without outliers: the 95th percentile of rates, the 5th of times.
double ceiling_of(std::vector<double> samples, bool rates) {
  std::sort(samples.begin(), samples.end());
  if (!rates) std::reverse(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(samples.size())));
  return samples[rank - 1];
}

struct Effort {
  double budget_s;  // for the samples of one loop in one split
  int min_samples, max_samples;
};

// Samples of one call of `pass`, in seconds. Their number fits the budget, within the limits of `effort`.
template <class Pass>
std::vector<double> time_passes(const Pass& pass, double sample_s, Effort effort) {
  const auto timed = [&](int64_t batch) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < batch; ++i) pass();
    return since(start);
  };
  int64_t batch = 1;
  double took = timed(1);  // fills the caches
  while (took < sample_s) {
    took = std::min(timed(2 * batch), timed(2 * batch));
    batch *= 2;
  }
  const int count =
      static_cast<int>(std::clamp<double>(effort.budget_s / took, effort.min_samples, effort.max_samples));
  std::vector<double> samples(static_cast<size_t>(count));
  for (double& s : samples) s = timed(batch) / static_cast<double>(batch);
  return samples;
}

template <class Pass>
std::vector<double> rates_of(double amount, const Pass& pass, double sample_s, Effort effort) {
  std::vector<double> rates = time_passes(pass, sample_s, effort);
  for (double& r : rates) r = amount / r;
  return rates;
}

int64_t cache_bytes(const MachineInfo& machine, int level, int64_t otherwise) {
  for (const CpuCache& c : machine.caches)
    if (c.level == level && c.type != "Instruction") return c.bytes;
  return otherwise;
}

// Sum of the last-level caches that this number of threads uses.
int64_t last_level_bytes(const MachineInfo& machine, int threads) {
  if (machine.caches.empty()) return 32 * kMiB;
  const int shared_by = std::max(1, machine.caches.back().shared_by);
  return machine.last_level_bytes() * ((threads + shared_by - 1) / shared_by);
}

class Measurement {
 public:
  Measurement(CpuContext& cpu, bool quick)
      : cpu_(cpu), quick_(quick), sample_s_(std::max(kSample_s, kClockReads * clock_read_s())) {}

  std::vector<Ceiling> run() {
    const auto footprints =
        bandwidth_footprints(read_machine(), cpu_.threads(), read_machine_state().available_bytes, quick_);
    Buffer memory(cpu_, footprints.back() + 2 * kSkew);
    const std::vector<MemoryLoop> loops = memory_loops();
    cpu_.enter([&] {
      for (const char* pattern : {"read", "copy", "update", "triad"})
        for (const int64_t f : footprints) bandwidth(loops, pattern, f, memory.as<char>());
      compute();
      if (cpu_.threads() > 1) fork_join();
      clock_read();
    });
    return std::move(ceilings_);
  }

 private:
  Ceiling& add(const std::string& name, const std::string& unit, std::vector<double> samples) {
    Ceiling& c = ceilings_.emplace_back();
    c.name = "cpu." + name;
    c.unit = unit;
    c.device = "cpu";
    c.threads = cpu_.threads();
    c.value = ceiling_of(samples, unit != "s");
    c.samples = std::move(samples);
    return c;
  }

  // Runs `work` once on each thread, after a barrier, so that all start together. False: a thread did not arrive in
  // time, and another one ran its work.
  template <class Work>
  bool run_on_all_threads(const Work& work) const {
    std::atomic<int64_t> arrived{0};
    std::atomic<bool> all_arrived{true};
    cpu_.parallel_for(cpu_.threads(), 1, [&](int64_t first, int64_t last) {
      arrived += last - first;
      for (const auto start = Clock::now(); arrived < cpu_.threads() && all_arrived;)
        if (since(start) > kBarrierTimeout_s) all_arrived = false;
      for (int64_t i = first; i < last; ++i) work();
    });
    return all_arrived;
  }

  // Idle threads sleep. Once they are awake, they take part from the first sample on.
  void wake_threads() {
    while (warm_up_left_s_ > 0) {
      const auto start = Clock::now();
      if (run_on_all_threads([] {})) return;
      warm_up_left_s_ -= since(start);
    }
  }

  // Each loop is tried with each grain, with a few samples; the fastest combination is then measured with more.
  void bandwidth(const std::vector<MemoryLoop>& loops, const std::string& pattern, int64_t footprint, char* memory) {
    const Effort trial{quick_ ? 8e-3 : 30e-3, 1, 10};
    const Effort thorough{quick_ ? 0.2 : 0.4, quick_ ? 10 : 20, quick_ ? 40 : 60};
    wake_threads();
    double best_rate = 0;
    const MemoryLoop* best_loop = nullptr;
    int64_t best_grain = 0;
    const auto rates = [&](const MemoryLoop& loop, int64_t grain, Effort effort) {
      const int64_t units = units_of(footprint, loop), bytes = units * kUnitBytes;
      const auto array = [&](int i) { return reinterpret_cast<float*>(memory + i * (bytes + kSkew)); };
      const auto body = [&, x = array(0), y = array(1 % loop.arrays), z = array(2 % loop.arrays)](int64_t first,
                                                                                                  int64_t last) {
        loop.run(x + first * kUnit, y + first * kUnit, z + first * kUnit, (last - first) * kUnit);
      };
      return rates_of(
          static_cast<double>(bytes * loop.moves), [&] { cpu_.parallel_for(units, grain, body); }, sample_s_, effort);
    };
    for (const MemoryLoop& loop : loops) {
      if (pattern != loop.pattern) continue;
      for (const int64_t grain : grains(units_of(footprint, loop), footprint)) {
        const double rate = ceiling_of(rates(loop, grain, trial), true);
        if (rate > best_rate) {
          best_rate = rate;
          best_loop = &loop;
          best_grain = grain;
        }
      }
    }
    Ceiling& c = add(pattern, "B/s", rates(*best_loop, best_grain, thorough));
    c.pattern = pattern;
    c.footprint_bytes = units_of(footprint, *best_loop) * kUnitBytes * best_loop->arrays;
  }

  static int64_t units_of(int64_t footprint, const MemoryLoop& loop) { return footprint / loop.arrays / kUnitBytes; }

  // Sizes of a task, in units: one task a thread, tasks of the usual size, and a single task where the footprint is so
  // small that a fork may cost more than it saves.
  std::set<int64_t> grains(int64_t units, int64_t footprint) const {
    if (cpu_.threads() == 1) return {units};
    std::set<int64_t> grains{(units + cpu_.threads() - 1) / cpu_.threads(), std::min(units, kTask / kUnitBytes)};
    if (footprint <= kMaxSerial) grains.insert(units);
    return grains;
  }

  void compute() {
    std::map<std::string, std::vector<double>> best;
    for (const ComputeLoop& loop : compute_loops()) {
      int64_t rounds = 1000;  // doubled until a call is long compared with the fork
      for (double took = 0; took < kComputeSample_s; rounds *= 2) {
        const auto start = Clock::now();
        loop.run(rounds);
        took = since(start);
      }
      const auto pass = [&] { run_on_all_threads([&] { loop.run(rounds); }); };
      const double operations = loop.operations * static_cast<double>(rounds) * cpu_.threads();
      const auto rates = rates_of(operations, pass, sample_s_, {quick_ ? 0.03 : 0.1, 10, 50});
      for (const std::string& dtype : loop.dtypes) {
        std::vector<double>& b = best[dtype];
        if (b.empty() || ceiling_of(rates, true) > ceiling_of(b, true)) b = rates;
      }
    }
    for (auto& [dtype, rates] : best)
      add("fma." + dtype, dtype == "i8" ? "OP/s" : "FLOP/s", std::move(rates)).dtype = dtype;
  }

  // Until every thread has run something: a loop that one thread runs alone would not have forked.
  void fork_join() {
    wake_threads();
    const auto pass = [&] { run_on_all_threads([] {}); };
    add("fork_join", "s", time_passes(pass, sample_s_, {0.02, 10, 100}));
  }

  void clock_read() {
    std::vector<double> samples(10);
    for (double& s : samples) s = clock_read_s();
    add("clock_read", "s", std::move(samples));
  }

  CpuContext& cpu_;
  bool quick_;
  double sample_s_, warm_up_left_s_ = kWarmUp_s;
  std::vector<Ceiling> ceilings_;
};

}  // namespace

std::vector<int64_t> bandwidth_footprints(const MachineInfo& machine, int threads, int64_t available_bytes,
                                          bool quick) {
  const auto power = [](int64_t bytes) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes))); };
  const int64_t l1 = cache_bytes(machine, 1, 32 * kKiB), l2 = cache_bytes(machine, 2, kMiB);
  const int64_t last_level = last_level_bytes(machine, threads);
  int64_t memory = std::clamp(power((quick ? 2 : 4) * last_level), kMinMemory, kMaxMemory);
  while (memory > available_bytes / 4 && memory > kMiB) memory /= 2;

  // Half a cache surely fits; a footprint of exactly its size does not. Of a footprint of twice the last level, little
  // is still there at the next pass.
  std::set<int64_t> points{memory};
  if (quick) {
    for (const int64_t p : {l1 / 2, l2 / 2, threads * l2 / 2, last_level / 2, 2 * last_level})
      if (p < memory) points.insert(p);
  } else {
    for (int64_t p = power(l1 / 2); p < memory; p *= 2) points.insert(p);
  }
  return {points.begin(), points.end()};
}

std::vector<Ceiling> measure_cpu_ceilings(CpuContext& cpu, bool quick) { return Measurement(cpu, quick).run(); }

}  // namespace duet::bench
