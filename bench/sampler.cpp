// SPDX-License-Identifier: Apache-2.0
// calibrate() fixes how much is timed; timed() takes one sample in the scope of the series.
#include "bench/sampler.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/pass_clock.h"
#include "bench/worker.h"
#include "core/error.h"
#include "core/nvtx.h"

namespace duet::bench {
namespace {
using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

constexpr double kClockReads = 500;  // a sample lasts at least so many, and min_sample_s() or kGpuSample_s
constexpr double kWarmUp_s = 0.05;
constexpr double kGpuWake_s = 0.02;      // of work before a repetition on a GPU
constexpr double kGpuSample_s = 1e-3;    // a sample there lasts at least; one took 0.6 ms with its roof
constexpr double kSlow_s = 0.5;          // where warming up took longer, no further calls are made to fix the counts
constexpr double kMaxBudgets = 4;        // of a slow job: it has fewer than ten samples
constexpr double kMaxSamples = 100;      // of a repetition
constexpr double kMaxSingleCalls = 300;  // of a repetition whose samples are single calls
constexpr double kMaxGroups = 1e6;       // of a sample
constexpr int kTries = 3;                // of a batch, while calibrating
constexpr double kMaxTries_s = 0.1;      // of them together, once one was taken
constexpr double kFilled = 0.8;          // of the budget: one that would take less is taken again, or has more samples
constexpr int kMaxLonger = 3;            // times as many samples as were fixed
constexpr double kMaxBatch = 1 << 24;    // applications
constexpr double kMaxLaunches = 500;     // in a row on a GPU, whose queue holds about 1000
constexpr double kMaxWall = 3;           // of a sample whose groups are restored or evicted, in its time
constexpr double kOneSample_s = 1;       // of an application; above, the budget alone counts
}  // namespace

double clock_read_s() {
  constexpr int kReads = 20000;
  const auto start = Clock::now();
  for (int i = 0; i < kReads; ++i) benchmark::DoNotOptimize(Clock::now());
  return seconds(Clock::now() - start) / kReads;
}

Sampler::Sampler(Runner& runner, Scope scope, Cache cache, double clock_read_s)
    : runner_(&runner), scope_(scope), cache_(cache), clock_read_s_(clock_read_s), run_([this] {
        runner_->run(runner_->restores() ? copy_++ % runner_->copies() : 0);
      }) {
  if (!results::has_copies(scope)) return;
  Context& context = runner.context();
  for (const auto& [device, bytes] : runner.uploads()) up_.push_back({PinnedBuffer(context, bytes), device});
  for (const auto& [device, bytes] : runner.downloads()) down_.push_back({PinnedBuffer(context, bytes), device});
  if (scope == Scope::overlapped) {
    beside_ = open_upload_stream(context);
    if (!beside_) throw Error("{} has no copies that work could overlap", context.describe());
    for (Transfer& t : up_) t.next = Buffer(context, t.host.bytes());
  }
  refresh_uploads();
}

void Sampler::refresh_uploads() {
  if (up_.empty()) return;
  if (runner_->restores()) runner_->restore();
  Context& context = runner_->context();
  for (const Transfer& t : up_) {
    context.download(t.host.data(), t.device, t.host.bytes());
    if (beside_) context.upload(t.next.data(), t.host.data(), t.host.bytes());
  }
}

// Of a repetition, as long as applications take the time that they took when the counts were fixed.
double Sampler::planned_s(double budget_s) const { return std::min(budget_s, counts_.sample_s * counts_.samples); }

Sampler::Counts Sampler::calibrate(double budget_s, int repetitions) {
  const auto start = Clock::now();
  first_call_s_ = first_call();
  double last = 0;
  for (int calls = 1; calls < 3 || seconds(Clock::now() - start) < std::min(kWarmUp_s, budget_s / 4); ++calls)
    last = timed(1);
  double t[3] = {last, last, last};
  if (seconds(Clock::now() - start) < kSlow_s)  // else the last warm call is good enough
    for (double& each : t) each = timed(1);
  std::sort(t, t + 3);
  const double one = std::max(t[1], 1e-9);

  counts_ = {.repetitions = repetitions, .sample_s = one};
  if (one > kOneSample_s) {
    counts_.samples = static_cast<int>(std::clamp(std::ceil(budget_s / one), 1.0, kMaxSamples));
    counts_.repetitions = std::min(repetitions, 3);
    return counts_;
  }
  const double target_s = std::max({on_gpu() ? kGpuSample_s : min_sample_s(runner_->context()),
                                    kClockReads * clock_read_s_, budget_s / kMaxSamples});
  if (runner_->single_calls() && scope_ != Scope::kernel) {
    const double min_samples = std::clamp(std::ceil(kMaxBudgets * budget_s / one), 1.0, 10.0);
    counts_.samples = static_cast<int>(std::clamp(std::ceil(budget_s / one), min_samples, kMaxSingleCalls));
    return counts_;
  }
  counts_.batch = batch_for(target_s, one);
  // The first estimate includes the clock's own cost and a cold cache: estimate again.
  if (counts_.batch > 1) counts_.batch = batch_for(target_s, shortest(counts_.batch).first);
  // Where a batch cannot be that long, a sample is the mean of several. What lies between them is not to take much
  // longer than the applications.
  const auto [application_s, group_wall_s] = shortest(counts_.batch);
  const double group_s = application_s * counts_.batch;
  counts_.groups = static_cast<int>(
      std::clamp(std::min(std::ceil(target_s / group_s), kMaxWall * target_s / group_wall_s), 1.0, kMaxGroups));
  counts_.sample_s = group_s * counts_.groups;
  // Ten samples at least, or as many as kMaxBudgets hold.
  const double min_samples = std::clamp(std::ceil(kMaxBudgets * budget_s / counts_.sample_s), 1.0, 10.0);
  counts_.samples = static_cast<int>(std::clamp(std::ceil(budget_s / counts_.sample_s), min_samples, kMaxSamples));
  return counts_;
}

// Of one application and of a whole group, the shortest of a few: one that was interrupted would make samples short.
std::pair<double, double> Sampler::shortest(int batch) {
  double application_s = 0, wall_s = 0, spent_s = 0;
  for (int i = 0; i < kTries && (i == 0 || spent_s < kMaxTries_s); ++i) {
    const auto start = Clock::now();
    const double time_s = std::max(timed(batch), 1e-9), took_s = seconds(Clock::now() - start);
    application_s = i == 0 ? time_s : std::min(application_s, time_s);
    wall_s = i == 0 ? took_s : std::min(wall_s, took_s);
    spent_s += took_s;
  }
  return {application_s, wall_s};
}

bool Sampler::grow(double budget_s, double took_s) {
  if (runner_->single_calls() && scope_ != Scope::kernel) return false;
  const double wanted_s = planned_s(budget_s);
  if (counts_.sample_s > kOneSample_s || !(took_s > 0) || took_s >= kFilled * wanted_s) return false;
  double factor = wanted_s / took_s;
  const double application_s = took_s / counts_.samples / applications();
  const int samples = static_cast<int>(std::min(std::ceil(counts_.samples * factor), kMaxSamples));
  factor *= static_cast<double>(counts_.samples) / samples;
  counts_.samples = samples;
  counts_.groups = static_cast<int>(std::clamp(std::ceil(counts_.groups * factor), 1.0, kMaxGroups));
  counts_.sample_s = application_s * applications();
  return true;
}

bool Sampler::one_more_will_do(double budget_s, int taken, double took_s) const {
  if (taken + 1 < counts_.samples) return false;
  if (taken == 0 || counts_.sample_s > kOneSample_s || taken + 1 >= kMaxLonger * counts_.samples) return true;
  return took_s + took_s / taken >= kFilled * planned_s(budget_s);
}

// By the wall clock in every scope, and not in a blocked queue: on a GPU, the first call of a job loads modules and
// lets libraries prepare themselves, on the host.
double Sampler::first_call() {
  if (runner_->restores()) runner_->restore();
  runner_->context().synchronize();
  double total_s = 0;
  runner_->context().enter([&] {
    const auto start = Clock::now();
    runner_->run(0);
    runner_->context().synchronize();
    total_s = seconds(Clock::now() - start);
  });
  return total_s;
}

void Sampler::wake(double budget_s) {
  if (!on_gpu()) return;
  const auto start = Clock::now();
  do {
    if (runner_->restores()) runner_->restore();
    timed_call(counts_.batch);  // in no scope does it upload, which would bring inputs back that were replaced since
  } while (seconds(Clock::now() - start) < std::min(kGpuWake_s, budget_s));
}

// Applications that take so long together, as far as a batch may have them.
int Sampler::batch_for(double target_s, double one_s) const {
  double batch = std::clamp(std::ceil(target_s / one_s), 1.0, kMaxBatch);
  if (cache_ == Cache::cold) batch = 1;
  if (scope_ == Scope::kernel) batch = std::min(batch, kMaxLaunches);
  if (runner_->restores()) batch = std::min<double>(batch, runner_->copies());
  return static_cast<int>(batch);
}

double Sampler::sample() {
  double total_s = 0;
  for (int g = 0; g < counts_.groups; ++g) {
    worker::beat();  // a sample may last long, a group does not
    bool waited = false;
    total_s += timed(counts_.batch, &waited);
    synchronises_ |= waited;
  }
  return total_s / counts_.groups;
}

void Sampler::apply(int runs) {
  static const NvtxName kRestore("restore"), kEvict("evict");
  Context& context = runner_->context();
  for (int left = runs; left > 0;) {
    const int batch = cache_ == Cache::cold ? 1 : runner_->restores() ? std::min(left, runner_->copies()) : left;
    left -= batch;
    if (runner_->restores()) {
      const NvtxRange range(kRestore);
      runner_->restore();
    }
    if (cache_ == Cache::cold) {
      const NvtxRange range(kEvict);
      runner_->evict();
    }
    context.synchronize();
    copy_ = 0;
    if (scope_ == Scope::kernel) {
      context.enter([&] {
        for (int i = 0; i < batch; ++i) run_();
      });
      context.synchronize();
    } else if (scope_ == Scope::call) {
      timed_call(batch);
    } else if (scope_ == Scope::end_to_end) {
      timed_end_to_end(batch);
    } else {
      timed_overlapped(batch);
    }
  }
}

double Sampler::timed(int batch, bool* waited) {
  if (runner_->restores()) runner_->restore();
  if (cache_ == Cache::cold) runner_->evict();
  runner_->context().synchronize();
  double result = 0;
  switch (scope_) {
    case Scope::kernel: {
      bool ignored = false;  // while calibrating, a library may still prepare itself
      copy_ = 0;
      result = device_queue(runner_->context())->device_time(run_, batch, waited ? *waited : ignored);
      break;
    }
    case Scope::call:
      result = timed_call(batch);
      break;
    case Scope::end_to_end:
      result = timed_end_to_end(batch);
      break;
    case Scope::overlapped:
      result = timed_overlapped(batch);
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

// As a training loop with two buffers: the batch that was copied during the last application goes to its place, and the
// next one is copied during this one. The last copy is waited for, so that every application has one.
double Sampler::timed_overlapped(int batch) {
  Context& context = runner_->context();
  const auto start = Clock::now();
  for (int i = 0; i < batch; ++i) {
    beside_->hold_work();
    for (const Transfer& t : up_) context.copy_within(t.device, t.next.data(), t.host.bytes());
    beside_->begin_after_work();
    for (const Transfer& t : up_) beside_->upload(t.next.data(), t.host.data(), t.host.bytes());
    runner_->refreshed();
    context.enter([&] { runner_->run(0); });
    for (const Transfer& t : down_) t.host.download(t.device, 0, t.host.bytes());
    context.synchronize();
  }
  beside_->synchronize();
  return seconds(Clock::now() - start) / batch;
}

}  // namespace duet::bench
