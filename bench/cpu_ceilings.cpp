// SPDX-License-Identifier: Apache-2.0
// Start reading at Measurement::run().
#include "bench/cpu_ceilings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "bench/cpu_pass.h"
#include "bench/pass_clock.h"
#include "bench/sampler.h"
#include "core/cpu_context.h"

namespace duet::bench {
namespace {
constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr int64_t kMinMemory = 256 * kMiB, kMaxMemory = 2048 * kMiB;
constexpr double kClockReads = 500;
constexpr double kWarmUp_s = 0.3;  // for waking threads in the whole measurement; beyond it the machine is busy

// The best value without outliers: the 95th percentile of rates, the 5th of times.
double ceiling_of(std::vector<double> samples, bool rates) {
  std::sort(samples.begin(), samples.end());
  if (!rates) std::reverse(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(samples.size())));
  return samples[rank - 1];
}

struct Budget {
  double samples_s;  // of one pass
  int min_samples, max_samples;
};

// Samples of one run of a pass, in seconds. Their number fits the budget.
std::vector<double> time_passes(const PassClock& clock, Pass& pass, double sample_s, Budget budget) {
  const int64_t batch = clock.batch_for(pass, sample_s);
  const double took = clock.seconds(pass, batch);
  const int count =
      static_cast<int>(std::clamp<double>(budget.samples_s / took, budget.min_samples, budget.max_samples));
  std::vector<double> samples(static_cast<size_t>(count));
  for (double& s : samples) s = clock.seconds(pass, batch) / static_cast<double>(batch);
  return samples;
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
  Measurement(CpuContext& cpu, CeilingEffort effort)
      : cpu_(cpu),
        passes_(cpu),
        clock_(cpu, results::Scope::call, false),
        effort_(effort),
        sample_s_(std::max(min_sample_s(cpu), kClockReads * clock_read_s())) {}

  std::vector<Ceiling> run() {
    const auto footprints =
        bandwidth_footprints(read_machine(), cpu_.threads(), allocatable_bytes(read_machine_state()), effort_);
    cpu_.enter([&] {
      for (const char* pattern : {"read", "write", "copy", "update", "triad"})
        for (const int64_t f : footprints) bandwidth(pattern, f);
      bandwidth("clear", *std::max_element(footprints.begin(), footprints.end()));  // in a cache it is a write
      for (const char* dtype : {"bf16", "f16", "f32", "f64", "i8"}) compute(dtype);
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

  void wake_up() { warm_up_left_s_ -= std::min(warm_up_left_s_, wake_threads(cpu_, warm_up_left_s_)); }

  template <class T>
  T by_effort(T smoke, T quick, T full) const {
    return effort_ == CeilingEffort::smoke ? smoke : effort_ == CeilingEffort::quick ? quick : full;
  }

  std::vector<double> rates(Pass& pass, Budget budget) const {
    std::vector<double> rates = time_passes(clock_, pass, sample_s_, budget);
    for (double& r : rates) r = pass.amount / r;
    return rates;
  }

  void bandwidth(const std::string& pattern, int64_t footprint) {
    wake_up();
    const auto pass = fastest(clock_, passes_.memory(pattern, footprint),
                              {.budget_s = by_effort(2e-3, 8e-3, 30e-3), .max_samples = 10});
    Ceiling& c = add(pattern, "B/s", rates(*pass, by_effort<Budget>({0.02, 5, 20}, {0.2, 10, 40}, {0.4, 20, 60})));
    c.pattern = pattern;
    c.footprint_bytes = pass->footprint_bytes;
  }

  void compute(const std::string& dtype) {
    wake_up();
    const auto pass = fastest(clock_, passes_.compute(dtype, std::numeric_limits<double>::infinity()),
                              {.budget_s = 10e-3, .max_samples = 20});
    if (!pass) return;  // this CPU has no unit for it
    add("fma." + dtype, dtype == "i8" ? "OP/s" : "FLOP/s",
        rates(*pass, by_effort<Budget>({0.01, 10, 20}, {0.03, 10, 50}, {0.1, 10, 50})))
        .dtype = dtype;
  }

  // Until every thread has run something: a loop that one thread runs alone would not have forked.
  void fork_join() {
    wake_up();
    struct Fork final : Pass {
      explicit Fork(CpuContext& cpu) : cpu(cpu) {}
      void run() override {
        run_on_all_threads(cpu, [] {});
      }
      CpuContext& cpu;
    } fork(cpu_);
    add("fork_join", "s", time_passes(clock_, fork, sample_s_, {0.02, 10, 100}));
  }

  void clock_read() {
    std::vector<double> samples(10);
    for (double& s : samples) s = clock_read_s();
    add("clock_read", "s", std::move(samples));
  }

  CpuContext& cpu_;
  CpuPasses passes_;
  PassClock clock_;
  CeilingEffort effort_;
  double sample_s_, warm_up_left_s_ = kWarmUp_s;
  std::vector<Ceiling> ceilings_;
};

}  // namespace

std::vector<int64_t> bandwidth_footprints(const MachineInfo& machine, int threads, int64_t available_bytes,
                                          CeilingEffort effort) {
  const auto power = [](int64_t bytes) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes))); };
  const int64_t l1 = cache_bytes(machine, 1, 32 * kKiB), l2 = cache_bytes(machine, 2, kMiB);
  const int64_t last_level = last_level_bytes(machine, threads);
  const bool full = effort == CeilingEffort::full;
  int64_t memory = std::clamp(power((full ? 4 : 2) * last_level), kMinMemory,
                              effort == CeilingEffort::smoke ? kMinMemory : kMaxMemory);
  while (memory > available_bytes / 4 && memory > kMiB) memory /= 2;

  // Half a cache surely fits; a footprint of exactly its size does not. Of a footprint of twice the last level, little
  // is still there at the next pass.
  std::set<int64_t> points{memory};
  if (!full) {
    for (const int64_t p : {l1 / 2, l2 / 2, threads * l2 / 2, last_level / 2, 2 * last_level})
      if (p < memory) points.insert(p);
  } else {
    for (int64_t p = power(l1 / 2); p < memory; p *= 2) points.insert(p);
  }
  return {points.begin(), points.end()};
}

std::vector<Ceiling> measure_cpu_ceilings(CpuContext& cpu, CeilingEffort effort) {
  return Measurement(cpu, effort).run();
}

}  // namespace duet::bench
