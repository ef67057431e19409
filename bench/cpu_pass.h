// SPDX-License-Identifier: Apache-2.0
// What a limit of the CPU is measured with: passes over arrays for a bandwidth, multiply-adds in registers for an
// arithmetic peak. The ceilings of a run (cpu_ceilings.h) and the roof beside a row (roof_probe.h) are timings of the
// same passes. The loops inside are in cpu_loops.h.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "bench/cpu_loops.h"
#include "core/cpu_context.h"

namespace duet::bench {

constexpr double kMinSample_s = 20e-6;  // a shorter timing would be that of the clock

// Call run() and evict() inside cpu.enter(). Work is split into small tasks, as in an op, so that a pass meets a busy
// core as an op does: the other threads take over.
class CpuPass {
 public:
  virtual ~CpuPass() = default;
  virtual void run() = 0;
  virtual void evict() {}  // what it touches, from the caches
  // The same loop over another footprint, in tasks of the same size; null where a pass has no footprint.
  virtual std::unique_ptr<CpuPass> resized(int64_t /*footprint*/) const { return nullptr; }
  double amount = 0;            // bytes that are moved, or operations, of one run
  std::string ceiling;          // name of the ceiling that it measures: "cpu.copy", "cpu.fma.f32"
  int64_t footprint_bytes = 0;  // of a bandwidth
};

// Whether a footprint is so far beyond the caches that nothing of it is still there at the next pass. A pass then goes
// over a part of it, and the next one over the next part.
bool far_beyond_caches(int64_t footprint);

// Arrays for passes over memory, grown on demand and shared by them: one pass runs at a time.
class PassMemory {
 public:
  explicit PassMemory(CpuContext& cpu) : cpu_(cpu) {}
  char* at_least(int64_t bytes);

 private:
  CpuContext& cpu_;
  Buffer buffer_;
};

// How long candidates are tried before the fastest one is taken.
struct Trial {
  double budget_s = 8e-3;  // for each candidate
  int max_samples = 10;
};

// A pass over arrays of `footprint` bytes together. patterns: one, or several joined by '|'. Of the loops and task
// sizes that serve them, the fastest in a trial is taken. cold: each pass of the trial begins with empty caches.
std::unique_ptr<CpuPass> memory_pass(CpuContext& cpu, PassMemory& memory, std::string_view patterns, int64_t footprint,
                                     bool cold, Trial trial);

// Multiply-adds of a dtype, the fastest loop that this CPU has for it; null where there is none. A pass is long
// compared with a fork, or has max_operations where these are fewer, split as is fastest.
std::unique_ptr<CpuPass> compute_pass(CpuContext& cpu, const std::string& dtype, Trial trial,
                                      double max_operations = std::numeric_limits<double>::infinity());

// Runs `work` once on each thread, after a barrier, so that all start together. False: a thread did not arrive in time,
// and another one ran its work.
bool run_on_all_threads(CpuContext& cpu, const std::function<void()>& work);
// Idle threads sleep. Once they are awake, they take part from the first sample on. Gives up after max_s: the machine
// is busy. Returns the seconds that it took.
double wake_threads(CpuContext& cpu, double max_s);

// Seconds of `batch` runs, one after the other.
double time_runs(CpuPass& pass, int64_t batch);
// So many runs that they take sample_s at least; calls it until the time is reached.
int64_t batch_for(CpuPass& pass, double sample_s);

}  // namespace duet::bench
