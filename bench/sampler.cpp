// SPDX-License-Identifier: Apache-2.0
// calibrate() fixes how much is timed; timed() takes one sample in the scope of the series.
#include "bench/sampler.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace duet::bench {
namespace {
using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

constexpr double kCpuSample_s = 20e-6, kGpuSample_s = 100e-6;  // a sample lasts at least this long
constexpr double kClockReads = 500;                            // ... and this many clock reads
constexpr double kWarmUp_s = 0.05;
constexpr double kSlow_s = 0.5;     // where warming up took longer, no further calls are made to fix the counts
constexpr double kMaxBudgets = 10;  // of a slow job, for its ten samples
constexpr int kMaxBatch = 1 << 14;  // applications in a sample
}  // namespace

double clock_read_s() {
  constexpr int kReads = 20000;
  const auto start = Clock::now();
  for (int i = 0; i < kReads; ++i) benchmark::DoNotOptimize(Clock::now());
  return seconds(Clock::now() - start) / kReads;
}

Sampler::Sampler(Runner& runner, Scope scope, Cache cache, double clock_read_s)
    : runner_(&runner), scope_(scope), cache_(cache), clock_read_s_(clock_read_s) {
  if (scope != Scope::end_to_end) return;
  Context& context = runner.context();
  for (const auto& [device, bytes] : runner.uploads()) up_.push_back({PinnedBuffer(context, bytes), device});
  for (const auto& [device, bytes] : runner.downloads()) down_.push_back({PinnedBuffer(context, bytes), device});
  refresh_uploads();
}

void Sampler::refresh_uploads() {
  if (up_.empty()) return;
  if (runner_->restores()) runner_->restore();
  for (const Transfer& t : up_) runner_->context().download(t.host.data(), t.device, t.host.bytes());
}

Sampler::Counts Sampler::calibrate(double budget_s, int repetitions) {
  const auto start = Clock::now();
  first_call_s_ = timed(1);
  double last = 0;
  for (int calls = 1; calls < 3 || seconds(Clock::now() - start) < std::min(kWarmUp_s, budget_s); ++calls)
    last = timed(1);
  double t[3] = {last, last, last};
  if (seconds(Clock::now() - start) < kSlow_s)  // else the last warm call is good enough
    for (double& each : t) each = timed(1);
  std::sort(t, t + 3);
  const double one = std::max(t[1], 1e-9);

  const bool gpu = runner_->context().device() != Device::cpu;
  const double target = std::max(gpu ? kGpuSample_s : kCpuSample_s, kClockReads * clock_read_s_);
  double batch = std::max(1.0, std::ceil(target / one));
  if (cache_ == Cache::cold) batch = 1;
  if (runner_->restores()) batch = std::min<double>(batch, runner_->copies());
  batch_ = static_cast<int>(std::min<double>(batch, kMaxBatch));
  if (batch_ > 1) {  // the first estimate includes the clock's own cost and a cold cache: estimate again
    const double again = std::max(timed(batch_), 1e-9);
    batch = std::clamp(std::ceil(target / again), 1.0, static_cast<double>(kMaxBatch));
    if (runner_->restores()) batch = std::min<double>(batch, runner_->copies());
    batch_ = static_cast<int>(batch);
  }
  if (one > 1) return {1, 1, std::min(repetitions, 3)};
  const double sample = batch_ == 1 ? one : std::max(timed(batch_), 1e-9) * batch_;
  // Ten samples at least, unless they would take ten times the budget.
  const double min_samples = std::clamp(std::ceil(kMaxBudgets * budget_s / sample), 1.0, 10.0);
  return {batch_, static_cast<int>(std::clamp(std::ceil(budget_s / sample), min_samples, 100.0)), repetitions};
}

double Sampler::sample() { return timed(batch_); }

double Sampler::timed(int batch) {
  if (runner_->restores()) runner_->restore();
  if (cache_ == Cache::cold) runner_->evict();
  runner_->context().synchronize();
  double result = 0;
  switch (scope_) {
    case Scope::kernel: {
      int copy = 0;
      const auto run = [&] { runner_->run(runner_->restores() ? copy++ % runner_->copies() : 0); };
      bool waited = false;
      result = device_queue(runner_->context())->device_time(run, batch, waited);
      synchronises_ |= waited;
      break;
    }
    case Scope::call:
      result = timed_call(batch);
      break;
    case Scope::end_to_end:
      result = timed_end_to_end(batch);
      break;
  }
  benchmark::ClobberMemory();
  return result;
}

double Sampler::timed_call(int batch) {
  Context& context = runner_->context();
  double total = 0;
  const int copies = runner_->copies();
  context.enter([&] {
    const auto start = Clock::now();
    for (int i = 0; i < batch; ++i) {
      runner_->run(copies > 1 ? i % copies : 0);
      context.synchronize();
    }
    total = seconds(Clock::now() - start);
  });
  return total / batch;
}

double Sampler::timed_end_to_end(int batch) {
  Context& context = runner_->context();
  const auto start = Clock::now();
  for (int i = 0; i < batch; ++i) {
    for (const Transfer& t : up_) t.host.upload(t.device, 0, t.host.bytes());
    runner_->refreshed();
    context.enter([&] { runner_->run(0); });
    for (const Transfer& t : down_) t.host.download(t.device, 0, t.host.bytes());
    context.synchronize();
  }
  return seconds(Clock::now() - start) / batch;
}

}  // namespace duet::bench
