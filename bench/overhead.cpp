// SPDX-License-Identifier: Apache-2.0
#include "bench/overhead.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/sampler.h"
#include "core/plan.h"
#include "results/statistics.h"

namespace duet::bench {
namespace {

class EmptyRunner final : public Runner {
 public:
  explicit EmptyRunner(CpuContext& cpu) : cpu_(cpu) {}
  Context& context() override { return cpu_; }
  void run(int) override { plan_(Args(nullptr)); }
  void evict() override {}
  Check verify(bool) override { return {}; }

 private:
  CpuContext& cpu_;
  Plan plan_ = [](Args args) { benchmark::DoNotOptimize(args); };
};

}  // namespace

double harness_overhead_s(CpuContext& cpu) {
  constexpr int kSamples = 200;
  EmptyRunner runner(cpu);
  const double read_s = clock_read_s();
  Sampler sampler(runner, Scope::call, Cache::warm, read_s);
  sampler.calibrate(0.01, 1);
  std::vector<double> empty, bare;
  for (int i = 0; i < kSamples; ++i) {
    empty.push_back(sampler.sample());
    constexpr int kCalls = 10000;
    const auto start = std::chrono::steady_clock::now();
    for (int c = 0; c < kCalls; ++c) {
      Args args(nullptr);
      benchmark::DoNotOptimize(args);
    }
    bare.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kCalls);
  }
  return std::max(0.0, results::median(empty) - results::median(bare));
}

}  // namespace duet::bench
