// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "bench/cpu_loops.h"
#include "bench/cpu_pass.h"
#include "bench/worker.h"
#include "results/rules.h"

namespace duet::bench {
namespace {
constexpr double kSample_s = 30e-6;  // much longer than threads take to meet
constexpr double kMaxWait_s = 0.3, kMaxWaits_s = 3, kMaxShare = 0.03;

double wall_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The narrowest vectors, since a CPU may change its clock for wide ones.
ComputeLoop narrowest() {
  for (ComputeLoop& loop : compute_loops())
    if (std::find(loop.dtypes.begin(), loop.dtypes.end(), "f32") != loop.dtypes.end()) return std::move(loop);
  return {};
}

// Seconds of the slowest thread, all at the same time; infinite where they were not, since one thread had no CPU.
std::function<double()> multiply_adds(CpuContext& cpu) {
  const ComputeLoop loop = narrowest();
  const auto took_s = [loop](int64_t rounds) {
    const double start_s = wall_s();
    loop.run(rounds);
    return wall_s() - start_s;
  };
  // As many for all objects of the process, whose samples are compared.
  static const int64_t rounds = [&] {
    int64_t found = 100;
    // The shortest of a few: one that another process interrupted would end the search too early.
    while (std::min({took_s(found), took_s(found), took_s(found)}) < kSample_s) found *= 2;
    return found;
  }();
  return [&cpu, took_s] {
    std::mutex mutex;
    double longest_s = 0;
    bool all = false;
    cpu.enter([&] {
      all = run_on_all_threads(cpu, [&] {
        took_s(rounds);  // a vector unit that was idle starts slowly
        const double own_s = took_s(rounds);
        const std::lock_guard lock(mutex);
        longest_s = std::max(longest_s, own_s);
      });
    });
    return all ? longest_s : std::numeric_limits<double>::infinity();
  };
}

// In the process that measures the ceilings they have likely seen the CPUs at their speed before the first row comes.
double& shortest_of(int threads) {
  static std::map<int, double> shortest_s;
  return shortest_s[threads];
}
}  // namespace

CpuSpeed::CpuSpeed(CpuContext& cpu) : CpuSpeed(multiply_adds(cpu), wall_s, shortest_of(cpu.threads())) {}

CpuSpeed::CpuSpeed(std::function<double()> seconds, std::function<double()> now, double& shortest_s)
    : seconds_(std::move(seconds)), now_(std::move(now)), shortest_s_(shortest_s), start_s_(now_()) {}

void CpuSpeed::wait() {
  const double begin_s = now_();
  const double left_s = kMaxWaits_s + kMaxShare * (begin_s - start_s_) - waited_s_;
  double now_s = begin_s;
  for (bool slow = true; slow && now_s - begin_s <= std::min(kMaxWait_s, left_s); now_s = now_()) {
    worker::beat();
    const double took_s = seconds_();
    if (!std::isfinite(took_s)) continue;
    if (shortest_s_ == 0 || took_s < shortest_s_) shortest_s_ = took_s;
    slow = results::slowed(took_s / shortest_s_);
  }
  waited_s_ += now_s - begin_s;
}

}  // namespace duet::bench
