// SPDX-License-Identifier: Apache-2.0
// The passes of a CPU (core/pass.h), over the loops of cpu_loops.h, and how its threads are woken.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/cpu_loops.h"
#include "bench/cpu_speed.h"
#include "core/cpu_context.h"
#include "core/pass.h"

namespace duet::bench {

// Work is split into small tasks, as in an op, so that a pass meets a busy core as an op does: the other threads take
// over. There is a pass for each loop that serves, and for each way to split it. memory() and compute() end with all
// threads awake, and at their speed as far as waiting helps.
class CpuPasses final : public Passes {
 public:
  explicit CpuPasses(CpuContext& cpu) : cpu_(cpu), memory_(cpu), speed_(cpu) {}
  std::vector<std::unique_ptr<Pass>> memory(std::string_view patterns, int64_t footprint) override;
  // A pass is long compared with a fork, or has at most max_operations where these are fewer.
  std::vector<std::unique_ptr<Pass>> compute(const std::string& dtype, double max_operations) override;
  int64_t cache_bytes() const override;
  void wait_for_speed() override { speed_.wait(); }

 private:
  CpuContext& cpu_;
  PassMemory memory_;
  CpuSpeed speed_;
};

// Runs `work` once on each thread, after a barrier, so that all start together. False: a thread did not arrive in time,
// and another one ran its work.
bool run_on_all_threads(CpuContext& cpu, const std::function<void()>& work);
// Idle threads sleep. Once they are awake, they take part from the first sample on. Gives up after max_s: the machine
// is busy. Returns the seconds that it took.
double wake_threads(CpuContext& cpu, double max_s);

}  // namespace duet::bench
