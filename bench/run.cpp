// SPDX-License-Identifier: Apache-2.0
#include "bench/run.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <csignal>

#include "bench/collector.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/nvtx.h"
#include "reports/statistics.h"

namespace duet::bench {
namespace {
volatile std::sig_atomic_t stop_requested = 0;

constexpr double kJudged_s = 0.1;  // /proc/stat counts in ticks of 10 ms: shorter repetitions cannot be judged
constexpr int kRetries = 3, kQuickRetries = 1;  // of a contended repetition
}  // namespace

void Run::request_stop() { stop_requested = 1; }
bool Run::stop_is_requested() { return stop_requested != 0; }

struct Run::Timing {
  Timing(const std::string& name, std::shared_ptr<Runner> runner, Scope scope, Cache cache, int threads,
         double clock_read_s)
      : name(name), runner(std::move(runner)), sampler(*this->runner, scope, cache, clock_read_s) {
    series.scope = scope;
    series.cache = cache;
    series.threads = threads;
  }
  std::string name;  // of the benchmark: job/scope/cache/threads:N
  std::shared_ptr<Runner> runner;
  Sampler sampler;
  Series series;
  JobRecord* job = nullptr;
};

Run::Run(const Options& options, Devices& devices)
    : options_(options), devices_(devices), clock_read_s_(clock_read_s()) {
  std::string program = "bench_all", interleave = "--benchmark_enable_random_interleaving=true";
  char* argv[] = {program.data(), interleave.data(), nullptr};
  int argc = 2;
  benchmark::Initialize(&argc, argv);
}

std::vector<JobRecord> Run::measure(BenchCase& c) {
  std::vector<JobRecord> jobs(c.sides.size());
  {
    std::vector<std::unique_ptr<Timing>> timings;
    std::vector<std::vector<std::unique_ptr<Timing>>> of_side(c.sides.size());
    bool drawn = false;
    for (size_t i = 0; i < c.sides.size(); ++i) {
      const Side& side = c.sides[i];
      if (side.missing.empty() && (side.device == Device::cpu || devices_.gpu) && !drawn) {
        c.prepare(options_.seed);
        drawn = true;
      }
      jobs[i] = start(c, side, of_side[i]);
      for (auto& t : of_side[i]) {
        t->job = &jobs[i];
        timings.push_back(std::move(t));
      }
    }
    take(timings);
    for (auto& t : timings) finish(c, *t);
  }
  c.release();
  for (JobRecord& job : jobs)
    if (job.status == Status::failed) job.series.clear();
  return jobs;
}

JobRecord Run::start(BenchCase& c, const Side& side, std::vector<std::unique_ptr<Timing>>& timings) {
  JobRecord job;
  job.name = side.job;
  job.implementation = side.implementation;
  job.device = side.device == Device::cpu ? "cpu" : "gpu";
  const bool cpu = side.device == Device::cpu;
  if (!side.missing.empty()) {
    job.reason = !cpu && !devices_.gpu ? devices_.no_gpu : side.missing;
    return job;
  }
  if (!cpu && !devices_.gpu) {
    job.reason = devices_.no_gpu;
    return job;
  }
  const auto wanted = [&](Scope s) {
    return options_.scopes.empty() ||
           std::find(options_.scopes.begin(), options_.scopes.end(), name_of(s)) != options_.scopes.end();
  };
  const NvtxRange range{NvtxName("setup")};
  try {
    std::vector<std::pair<Context*, int>> contexts;
    if (cpu) {
      contexts.emplace_back(devices_.cpu.get(), devices_.cpu->threads());
      if (devices_.one_thread) contexts.emplace_back(devices_.one_thread.get(), 1);
    } else {
      contexts.emplace_back(devices_.gpu.get(), 1);
    }
    for (const auto& [context, threads] : contexts) {
      std::shared_ptr<Runner> runner = c.make(side, *context, job.reason);
      if (!runner) return job;
      if (timings.empty()) {
        job.create_s = runner->create_s;
        job.algorithm = runner->algorithm;
        job.workspace_bytes = runner->workspace_bytes;
      }
      std::vector<Cache> caches{Cache::warm};
      if (options_.size >= Size::standard) caches.push_back(Cache::cold);
      for (const Cache cache : caches)
        for (const Scope scope : {Scope::kernel, Scope::call, Scope::end_to_end}) {
          if (cpu && scope != Scope::call) continue;  // its data is in host memory and it has no device clock
          if (cache == Cache::cold && scope == Scope::end_to_end) continue;
          if (!wanted(scope)) continue;
          const std::string name =
              fmt::format("{}/{}/{}/threads:{}", side.job, name_of(scope), name_of(cache), threads);
          timings.push_back(std::make_unique<Timing>(name, runner, scope, cache, threads, clock_read_s_));
        }
    }
    if (timings.empty()) {
      job.reason = "no selected scope exists on this side; a CPU has the scope call";
      return job;
    }
    job.threads = cpu ? devices_.cpu->threads() : 1;
    job.isa = cpu ? simd_target() : "";
    job.status = Status::ok;
    for (auto& t : timings) {
      if (stop_requested) throw Interrupted{};
      t->series.counts = t->sampler.calibrate(options_.budget_s(), options_.repetitions_or_default());
      t->series.first_call_s = t->sampler.first_call_s();
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    timings.clear();
    job.status = Status::failed;
    job.reason = e.what();
    job.repro = c.repro(side);
  }
  return job;
}

void Run::take(std::vector<std::unique_ptr<Timing>>& timings) {
  for (auto& each : timings) {
    Timing* t = each.get();
    benchmark::RegisterBenchmark(t->name.c_str(),
                                 [this, t](benchmark::State& state) {
                                   if (stop_requested || t->job->status == Status::failed) {
                                     state.SkipWithError(stop_requested ? "interrupted" : t->job->reason.c_str());
                                     for ([[maybe_unused]] auto _ : state) {
                                     }
                                     return;
                                   }
                                   // The library fixes the number of iterations; a repetition that had company is taken again beside it.
                                   auto iterator = state.begin();
                                   const auto end = state.end();  // starts the library's clock: once
                                   repetition(*t, [&](double time_s) {
                                     state.SetIterationTime(time_s);
                                     if (iterator != end) ++iterator;
                                   });
                                   while (iterator != end) ++iterator;  // a stop in the middle
                                 })
        ->UseManualTime()
        ->Iterations(t->series.counts.samples)
        ->Repetitions(t->series.counts.repetitions)
        ->Unit(benchmark::kMicrosecond);
  }
  if (!timings.empty()) {
    Collector quiet;
    benchmark::RunSpecifiedBenchmarks(&quiet);
  }
  benchmark::ClearRegisteredBenchmarks();
  if (stop_requested) throw Interrupted{};
}

void Run::repetition(Timing& t, const std::function<void(double)>& report) {
  static const NvtxName kMeasure("measure");
  const NvtxName name(t.job->name);
  const NvtxRange job_range(name);
  Repetition best;
  try {
    for (int attempt = 0;; ++attempt) {
      t.runner->begin_repetition();
      Repetition r;
      r.order = order_++;
      const CpuSnapshot before = CpuSnapshot::now();
      {
        const NvtxRange range(kMeasure);
        for (int i = 0; i < t.series.counts.samples && !stop_requested; ++i) {
          const double time_s = t.sampler.sample();
          if (!(time_s > 0)) throw Error("the clock gave {} s for a sample", time_s);
          r.samples_s.push_back(time_s);
          if (attempt == 0) report(time_s);
        }
      }
      const CpuUse use = cpu_use(before, CpuSnapshot::now());
      r.foreign_cores = std::max(0.0, use.foreign_cores);
      const bool contended = use.wall_s >= kJudged_s && use.contended();
      if (contended) r.flags.emplace_back("contended");
      if (attempt > 0) r.flags.emplace_back("retried");
      best = std::move(r);
      const int retries = options_.size == Size::smoke ? 0 : options_.size == Size::quick ? kQuickRetries : kRetries;
      if (!contended || attempt == retries || stop_requested) break;
    }
  } catch (const std::exception& e) {
    t.job->status = Status::failed;
    t.job->reason = e.what();
    return;
  }
  if (best.samples_s.empty()) return;
  t.series.repetitions.push_back(std::move(best));
  if (static_cast<int>(t.series.repetitions.size()) < t.series.counts.repetitions) return;

  static const NvtxName kVerify("verify");
  const NvtxRange range(kVerify);
  try {  // the very buffers that this repetition timed
    const Check check = t.runner->verify();
    if (!t.job->check || !check.passed() || check.max_error_ratio > t.job->check->max_error_ratio) t.job->check = check;
    if (!check.passed()) {
      t.job->status = Status::failed;
      t.job->reason = "wrong result: " + check.failure;
    }
  } catch (const std::exception& e) {
    t.job->status = Status::failed;
    t.job->reason = e.what();
  }
}

void Run::finish(BenchCase& c, Timing& t) {
  JobRecord& job = *t.job;
  Series& s = t.series;
  if (job.status == Status::failed || s.repetitions.empty()) {
    for (const Side& side : c.sides)
      if (side.job == job.name) job.repro = c.repro(side);
    if (job.status == Status::ok) {
      job.status = Status::failed;
      job.reason = "no repetition was taken";
    }
    return;
  }
  s.summary = summarise(s.repetitions);
  if (t.runner->restores()) s.flags.emplace_back("restored");
  if (t.sampler.synchronises()) s.flags.emplace_back("synchronises");
  if (!job.step && s.scope == Scope::call) job.step = c.study(*t.runner);
  job.series.push_back(std::move(s));
}

}  // namespace duet::bench
