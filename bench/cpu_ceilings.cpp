// SPDX-License-Identifier: Apache-2.0
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
constexpr int64_t kLeastMemory = 256 * kMiB, kMostMemory = 2048 * kMiB;
constexpr int64_t kUnitBytes = kUnit * int64_t{sizeof(float)};
constexpr int64_t kTask = 128 * kKiB;  // the usual piece of an op
constexpr int64_t kSerial = 2 * kMiB;  // beyond this a fork always pays
constexpr int64_t kSkew = 1280;        // between arrays: equal low address bits make loads wait for stores
constexpr double kSample_s = 20e-6, kClockReads = 500, kComputeSample_s = 500e-6;
constexpr double kMeeting_s = 2e-3;  // a thread that takes longer to come is not free
constexpr double kWaking_s = 0.3;    // for the whole measurement: beyond it the machine is simply busy

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The best value that is not a lucky one: the 95th percentile of rates, the 5th of times.
double ceiling_of(std::vector<double> samples, bool rates) {
  std::sort(samples.begin(), samples.end());
  if (!rates) std::reverse(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(samples.size())));
  return samples[rank - 1];
}

struct Effort {
  double budget_s;  // for the samples of one way
  int least, most;  // samples
};

// Samples of one pass of `pass`, in seconds. Long ones are few: their number fits the budget.
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
  const int count = static_cast<int>(std::clamp<double>(effort.budget_s / took, effort.least, effort.most));
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

// Of all the last-level caches that so many threads have to themselves.
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

  // `work` once on every thread, all at once: nobody begins before the others have come. False: somebody did not come,
  // and another did his share.
  template <class Work>
  bool together(const Work& work) const {
    std::atomic<int64_t> come{0};
    std::atomic<bool> all_came{true};
    cpu_.parallel_for(cpu_.threads(), 1, [&](int64_t first, int64_t last) {
      come += last - first;
      for (const auto start = Clock::now(); come < cpu_.threads() && all_came;)
        if (since(start) > kMeeting_s) all_came = false;
      for (int64_t share = first; share < last; ++share) work();
    });
    return all_came;
  }

  // Idle threads sleep; awake, they take part from the first sample on.
  void wake() {
    while (waking_s_ > 0) {
      const auto start = Clock::now();
      if (together([] {})) return;
      waking_s_ -= since(start);
    }
  }

  // Every loop in every split is a way to run the pattern. The best after a few samples of each is measured in earnest.
  void bandwidth(const std::vector<MemoryLoop>& loops, const std::string& pattern, int64_t footprint, char* memory) {
    const Effort trial{quick_ ? 8e-3 : 30e-3, 1, 10}, earnest{quick_ ? 0.2 : 0.4, quick_ ? 10 : 20, quick_ ? 40 : 60};
    wake();
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
    Ceiling& c = add(pattern, "B/s", rates(*best_loop, best_grain, earnest));
    c.pattern = pattern;
    c.footprint_bytes = units_of(footprint, *best_loop) * kUnitBytes * best_loop->arrays;
  }

  static int64_t units_of(int64_t footprint, const MemoryLoop& loop) { return footprint / loop.arrays / kUnitBytes; }

  // Pieces, in units: one a thread, the usual size, all in one where a fork may cost more than it brings.
  std::set<int64_t> grains(int64_t units, int64_t footprint) const {
    if (cpu_.threads() == 1) return {units};
    std::set<int64_t> grains{(units + cpu_.threads() - 1) / cpu_.threads(), std::min(units, kTask / kUnitBytes)};
    if (footprint <= kSerial) grains.insert(units);
    return grains;
  }

  void compute() {
    std::map<std::string, std::vector<double>> best;
    for (const ComputeLoop& loop : compute_loops()) {
      int64_t rounds = 1000;  // such that a piece of work is long against the fork
      for (double took = 0; took < kComputeSample_s; rounds *= 2) {
        const auto start = Clock::now();
        loop.run(rounds);
        took = since(start);
      }
      const auto pass = [&] { together([&] { loop.run(rounds); }); };
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

  // Until every thread has had its piece: one that does it all alone has not forked.
  void fork_join() {
    wake();
    const auto pass = [&] { together([] {}); };
    add("fork_join", "s", time_passes(pass, sample_s_, {0.02, 10, 100}));
  }

  void clock_read() {
    std::vector<double> samples(10);
    for (double& s : samples) s = clock_read_s();
    add("clock_read", "s", std::move(samples));
  }

  CpuContext& cpu_;
  bool quick_;
  double sample_s_, waking_s_ = kWaking_s;
  std::vector<Ceiling> ceilings_;
};

}  // namespace

std::vector<int64_t> bandwidth_footprints(const MachineInfo& machine, int threads, int64_t available_bytes,
                                          bool quick) {
  const auto power = [](int64_t bytes) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes))); };
  const int64_t l1 = cache_bytes(machine, 1, 32 * kKiB), l2 = cache_bytes(machine, 2, kMiB);
  const int64_t last_level = last_level_bytes(machine, threads);
  int64_t memory = std::clamp(power((quick ? 2 : 4) * last_level), kLeastMemory, kMostMemory);
  while (memory > available_bytes / 4 && memory > kMiB) memory /= 2;

  // Half a cache is sure to fit; exactly one is not. What is streamed through twice the last level finds little there.
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
