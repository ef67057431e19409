// SPDX-License-Identifier: Apache-2.0
#include "bench/case_timer.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "bench/collector.h"
#include "bench/counters.h"
#include "bench/cpu_pass.h"
#include "bench/describe.h"
#include "bench/repetition.h"
#include "bench/stop.h"
#include "bench/worker.h"
#include "core/cpu_context.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/machine.h"
#include "core/nvtx.h"
#include "core/pass.h"
#include "results/rules.h"
#include "results/statistics.h"

namespace duet::bench {
namespace {
using results::Status;

constexpr int kRetries = 3, kQuickRetries = 1;  // of a disturbed repetition
constexpr int kMaxGrowths = 3;                  // of the samples of a series
constexpr int kWarmUps = 3;                     // applications of a series before it is captured

void fail(results::Job& job, const std::string& reason) {
  job.status = Status::failed;
  job.reason = reason;
}

NvtxWork nvtx_work(const results::JobDescription& job) {
  return {.category = job.family, .bytes = job.bytes, .flops = job.flops};
}

double first_limit_s(const BenchCase& c) { return uncalibrated_limit_s(c.flops, static_cast<double>(c.bytes)); }

results::Check stored(const Check& check) {
  return {.max_error_ratio = std::isfinite(check.max_error_ratio) ? std::optional(check.max_error_ratio) : std::nullopt,
          .slices = check.slices,
          .elements = check.elements,
          .coverage = check.coverage,
          .sampled_reason = check.sampled_reason.empty() ? std::nullopt : std::optional(check.sampled_reason)};
}

}  // namespace

CaseTimer::CaseTimer(const Options& options, Devices& devices, const std::vector<Ceiling>& ceilings,
                     const CounterSources& counters)
    : options_(options), devices_(devices), clock_read_s_(clock_read_s()) {
  const auto add = [&](Context& context, std::unique_ptr<Passes> passes) {
    if (passes) probes_.try_emplace(&context, context, std::move(passes), ceilings);
  };
  for (CpuContext* cpu : {devices.cpu.get(), devices.one_thread.get()})
    if (options.cpu && cpu) add(*cpu, std::make_unique<CpuPasses>(*cpu));
  if (devices.gpu) add(*devices.gpu, gpu_passes(*devices.gpu));
  // Of several processes of a run the first counts: windows are long, and their values are no samples of a time.
  if (options.counters && !(worker::page() && worker::page()->process > 0)) {
    if (options.cpu) gauges_[Device::cpu] = cpu_gauges(counters);
    if (devices.gpu) gauges_[devices.gpu->device()] = gpu_gauges(counters, *devices.gpu);
  }
  std::string program = "bench_all", interleave = "--benchmark_enable_random_interleaving=true";
  char* argv[] = {program.data(), interleave.data(), nullptr};
  int argc = 2;
  benchmark::Initialize(&argc, argv);
}

// Makes the runners of all sides, and what the case shares between them.
CaseTimer::Timings CaseTimer::start_all(BenchCase& c, std::vector<results::Job>& jobs) {
  Timings timings;
  bool prepared = false;
  for (size_t i = 0; i < c.sides.size(); ++i) {
    if (!prepared && unavailable_reason(c.sides[i]).empty()) {
      std::string all;
      for (const Side& side : c.sides)
        if (unavailable_reason(side).empty()) all += side.job + "\n";
      worker::works_on(Phase::prepare, all, first_limit_s(c));
      const NvtxRange of_case(NvtxName(c.name(), {.category = c.family}));
      const NvtxRange range(phases().prepare);
      c.prepare(options_.seed);
      prepared = true;
    }
    Timings of_side;
    jobs[i] = start(c, c.sides[i], of_side);
    for (auto& t : of_side) {
      t->job = &jobs[i];
      timings.push_back(std::move(t));
    }
  }
  return timings;
}

std::vector<results::Job> CaseTimer::measure(BenchCase& c) {
  std::vector<results::Job> jobs(c.sides.size());
  {
    const CpuSnapshot begin = CpuSnapshot::now();
    Timings timings = start_all(c, jobs);  // destroyed before the case releases its memory
    for (auto& t : timings) t->begin = begin;
    add_probes(timings);
    run_benchmarks(timings);
    count_all(timings);
    for (auto& t : timings) finish(c, *t);
  }
  c.release();
  for (results::Job& job : jobs)
    if (job.status == Status::failed) {
      job.series.clear();
      job.step.reset();
      job.counters.reset();
    }
  return jobs;
}

std::vector<results::Job> CaseTimer::capture(BenchCase& c, const Capture& capture) {
  std::vector<results::Job> jobs(c.sides.size());
  {
    Timings timings = start_all(c, jobs);
    for (auto& t : timings) {
      if (stop_is_requested()) throw Interrupted{};
      if (t->job->status == Status::ok) capture_series(*t, capture, t == timings.back());
    }
  }
  c.release();
  return jobs;
}

void CaseTimer::capture_series(SeriesTiming& t, const Capture& capture, bool last) {
  const NvtxRange of_series(*t.range);
  try {
    t.runner->begin_repetition(0, 1);
    t.sampler.refresh_uploads();
    t.runner->before_sample(0, 1);
    capture.begin();
    {
      const NvtxRange range(phases().measure);
      t.sampler.apply(capture.runs);
    }
    capture.end(last);
    t.runner->after_sample(0, 1);
  } catch (const std::exception& e) {
    capture.end(last);
    fail(*t.job, e.what());
    return;
  }
  verify(t, true);
}

// Empty where the side can be tried.
std::string CaseTimer::unavailable_reason(const Side& side) const {
  if (side.device != Device::cpu && !devices_.gpu) return devices_.no_gpu;
  return side.unavailable_reason;
}

results::Job CaseTimer::start(BenchCase& c, const Side& side, Timings& timings) {
  results::Job job;
  static_cast<results::JobDescription&>(job) = describe_job(c, side);
  job.reason = unavailable_reason(side);
  if (!job.reason.empty()) return job;

  try {
    if (!set_up(c, side, job, timings)) return job;
    for (auto& t : timings) t->range.emplace(t->name, nvtx_work(job));
    worker::works_on(Phase::calibrate, side.job, first_limit_s(c));
    calibrate(timings);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    timings.clear();
    fail(job, e.what());
    job.repro = c.repro(side);
  }
  return job;
}

// Makes the plans. False where there is nothing to time; the job then says why.
bool CaseTimer::set_up(BenchCase& c, const Side& side, results::Job& job, Timings& timings) {
  const NvtxRange of_job(NvtxName(job.name, nvtx_work(job)));
  const NvtxRange range(phases().setup);
  const bool cpu = side.device == Device::cpu;
  std::vector<std::pair<Context*, int>> contexts;
  if (cpu) {
    contexts.emplace_back(devices_.cpu.get(), devices_.cpu->threads());
    if (devices_.one_thread) contexts.emplace_back(devices_.one_thread.get(), 1);
  } else {
    contexts.emplace_back(devices_.gpu.get(), 1);
  }
  for (const auto& [context, threads] : contexts) {
    worker::works_on(Phase::plan, side.job, first_limit_s(c));
    const std::shared_ptr<Runner> runner = c.make(side, *context, job.reason);
    if (!runner) return false;
    if (!job.plan)
      job.plan = results::Plan{.threads = threads,
                               .isa = cpu ? simd_target() : "",
                               .algorithm = runner->algorithm,
                               .workspace_bytes = runner->workspace_bytes,
                               .create_s = runner->create_s};
    add_timings(side, runner, threads, timings);
  }
  static_cast<results::JobDescription&>(job) = describe_job(c, side);  // a step's flops are known once it is made
  if (timings.empty()) {
    job.reason = cpu ? "no selected scope exists on this side; a CPU has the scope call"
                     : "no selected scope exists on this side; overlapped is one of steps and inferences";
    return false;
  }
  job.status = Status::ok;
  return true;
}

void CaseTimer::add_timings(const Side& side, const std::shared_ptr<Runner>& runner, int threads,
                            Timings& timings) const {
  const auto wanted = [&](Scope s) {
    return options_.scopes.empty() ||
           std::find(options_.scopes.begin(), options_.scopes.end(), name_of(s)) != options_.scopes.end();
  };
  std::vector<Cache> caches{Cache::warm};
  if (options_.preset >= Preset::standard) caches.push_back(Cache::cold);
  for (const Cache cache : caches)
    for (const Scope scope : {Scope::kernel, Scope::call, Scope::end_to_end, Scope::overlapped}) {
      // A CPU's data is in host memory and it has no device clock.
      if (side.device == Device::cpu && scope != Scope::call) continue;
      if (cache == Cache::cold && results::has_copies(scope)) continue;
      if (scope == Scope::overlapped && !runner->reads_batches()) continue;
      if (!wanted(scope)) continue;
      timings.push_back(std::make_unique<SeriesTiming>(
          fmt::format("{}/{}/{}/threads:{}", side.job, name_of(scope), name_of(cache), threads), runner, scope, cache,
          threads, clock_read_s_));
    }
}

void CaseTimer::calibrate(Timings& timings) const {
  for (auto& t : timings) {
    if (stop_is_requested()) throw Interrupted{};
    worker::beat();
    const auto start = std::chrono::steady_clock::now();
    const NvtxRange of_series(*t->range);
    const NvtxRange range(phases().warmup);
    if (options_.profile) {
      t->sampler.apply(kWarmUps);
      continue;
    }
    t->counts = t->sampler.calibrate(options_.budget_s(), options_.repetitions_or_default());
    t->limit_s = calibrated_limit_s(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    t->series.batch = t->sampler.applications();
    t->series.iterations = t->counts.samples;
    t->series.first_call_s = t->sampler.first_call_s();
  }
}

// Null where the ceilings give no roof, and where the device has no pass or no memory for the probe: then the ceilings
// of the run have to do.
std::shared_ptr<RoofProbe> CaseTimer::probe_of(const SeriesTiming& t, bool again) {
  const auto probes = probes_.find(&t.runner->context());
  if (probes == probes_.end()) return nullptr;
  try {
    return probes->second.probe(work_of(*t.job, t.series), t.series.scope, again);
  } catch (const Error&) {
    return nullptr;
  }
}

// Rows of a case that share device, threads, scope, cache state and number of operations share their probe.
void CaseTimer::add_probes(Timings& timings) {
  worker::works_on(Phase::probe);
  std::map<std::tuple<const Context*, Scope, Cache, double>, std::shared_ptr<RoofProbe>> of_case;
  for (auto& t : timings) {
    if (results::has_copies(t->series.scope) || t->job->status == Status::failed) continue;
    if (stop_is_requested()) throw Interrupted{};
    const auto [at, is_new] = of_case.try_emplace(
        {&t->runner->context(), t->series.scope, t->series.cache, work_of(*t->job, t->series).flops});
    if (is_new) at->second = probe_of(*t, false);
    t->probe = at->second;
  }
}

void CaseTimer::run_benchmarks(Timings& timings) {
  for (auto& each : timings) {
    SeriesTiming* t = each.get();
    const auto body = [this, t](benchmark::State& state) {
      if (stop_is_requested() || t->job->status == Status::failed) {
        state.SkipWithError(stop_is_requested() ? "interrupted" : t->job->reason.c_str());
        for ([[maybe_unused]] auto _ : state) {
        }
        return;
      }
      // The library fixes the number of iterations; a repetition is taken again, also with more samples, in the course
      // of one. Once the iterator has reached its end, it must not be asked again.
      auto iterator = state.begin();
      const auto end = state.end();  // starts the library's clock: once
      bool more = true;
      repetition(*t, [&](double time_s) {
        if (!more) return;
        state.SetIterationTime(time_s);
        more = iterator != end;
        if (more) ++iterator;
      });
      while (more && iterator != end) ++iterator;  // a stop in the middle
    };
    benchmark::RegisterBenchmark(t->name.c_str(), body)
        ->UseManualTime()
        ->Iterations(t->counts.samples)
        ->Repetitions(t->counts.repetitions)
        ->Unit(benchmark::kMicrosecond);
  }
  if (!timings.empty()) {
    Collector quiet;
    benchmark::RunSpecifiedBenchmarks(&quiet);
  }
  benchmark::ClearRegisteredBenchmarks();
  if (stop_is_requested()) throw Interrupted{};
}

// One repetition of a series, retried where it was disturbed, and verified. Where all attempts were disturbed, all
// of them count.
void CaseTimer::repetition(SeriesTiming& t, const std::function<void(double)>& report) {
  const NvtxRange of_series(*t.range);
  const int retries = options_.preset == Preset::smoke   ? 0
                      : options_.preset <= Preset::sweep ? kQuickRetries
                                                         : kRetries;
  results::Repetition taken;
  std::optional<results::Repetition> disturbed_ones;
  // Not with --times-only, where another program takes turns that does not wait.
  const auto probes = options_.times_only ? probes_.end() : probes_.find(&t.runner->context());
  try {
    for (int attempt = 0; attempt <= retries; ++attempt) {
      worker::works_on(Phase::measure, t.job->name, t.limit_s);
      if (probes != probes_.end()) probes->second.wait_for_speed();
      taken = take_repetition(t, options_.budget_s(), order_++, attempt, report);
      for (int i = 0; i < kMaxGrowths && t.series.repetitions.empty() && grow(t, taken); ++i)
        taken = take_repetition(t, options_.budget_s(), order_++, attempt, report);
      // Faster than its roof: perhaps a better pass was slow in the trial. Only the long trial's roof may accuse a row.
      if (!t.probe_is_confirmed && results::over_roof(taken)) {
        t.probe = probe_of(t, true);
        t.probe_is_confirmed = true;
        taken = take_repetition(t, options_.budget_s(), order_++, attempt + 1, report);
      }
      if (!disturbed(taken) || stop_is_requested()) break;
      if (disturbed_ones)
        results::append_attempt(*disturbed_ones, taken);
      else
        disturbed_ones = taken;
    }
  } catch (const std::exception& e) {
    fail(*t.job, e.what());
    return;
  }
  if (taken.samples_s.empty()) return;
  if (disturbed(taken) && disturbed_ones && !stop_is_requested()) taken = std::move(*disturbed_ones);
  t.series.repetitions.push_back(std::move(taken));
  verify(t, static_cast<int>(t.series.repetitions.size()) == t.counts.repetitions);
}

// Larger samples where the first repetition shows that calibration was disturbed. False: it was not.
bool CaseTimer::grow(SeriesTiming& t, const results::Repetition& first) const {
  double took_s = 0;
  for (const double sample_s : first.samples_s) took_s += sample_s * t.sampler.applications();
  if (stop_is_requested() || !t.sampler.grow(options_.budget_s(), took_s)) return false;
  t.counts = t.sampler.counts();
  t.series.batch = t.sampler.applications();
  t.series.iterations = t.counts.samples;
  return true;
}

// The buffers that a repetition timed. last: it was the series' last.
void CaseTimer::verify(SeriesTiming& t, bool last) {
  const NvtxRange range(phases().verify);
  results::Job& job = *t.job;
  worker::works_on(Phase::verify, job.name, uncalibrated_limit_s(job.flops, static_cast<double>(job.bytes)));
  try {
    const Check check = t.runner->verify(last);
    const bool worse = !job.check || check.max_error_ratio > job.check->max_error_ratio;
    if (!check.passed() || (last && worse)) job.check = stored(check);
    if (!check.passed()) fail(job, "wrong result: " + check.failure);
  } catch (const std::exception& e) {
    fail(job, e.what());
  }
}

// The first series of each job: warm, with all threads; of a GPU its kernels, where that scope is selected.
void CaseTimer::count_all(Timings& timings) {
  if (gauges_.empty()) return;
  for (auto& t : timings) {
    if (stop_is_requested()) throw Interrupted{};
    if (t->job->status == Status::ok && !t->job->counters && !t->series.repetitions.empty()) count(*t);
  }
}

void CaseTimer::count(SeriesTiming& t) {
  results::Job& job = *t.job;
  const auto gauges = gauges_.find(t.runner->context().device());
  if (gauges == gauges_.end()) return;
  results::Counters& counters = job.counters.emplace();
  counters.scope = t.series.scope;
  counters.cache = t.series.cache;
  counters.threads = t.series.threads;
  if (t.runner->restores() || !any_can_measure(gauges->second)) {
    take_nothing(gauges->second, "its inout tensors are restored between applications, which would be counted",
                 counters);
    return;
  }
  worker::works_on(Phase::count, job.name, t.limit_s);
  const NvtxRange of_series(*t.range);
  try {
    t.runner->begin_repetition(0, 1);
    t.sampler.refresh_uploads();
    t.runner->before_sample(0, 1);
    {
      const NvtxRange range(phases().count);
      take_window(gauges->second,
                  {.apply = [&](int runs) { t.sampler.apply(runs); },
                   .between =
                       [] {
                         worker::beat();
                         if (stop_is_requested()) throw Interrupted{};
                       },
                   .application_s = t.counts.sample_s / t.sampler.applications()},
                  results::kMinCounterWindow_s, counters);
    }
    t.runner->after_sample(0, 1);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& e) {
    fail(job, e.what());
    return;
  }
  verify(t, false);
}

void CaseTimer::finish(BenchCase& c, SeriesTiming& t) {
  results::Job& job = *t.job;
  results::Series& s = t.series;
  if (job.status == Status::ok && s.repetitions.empty()) fail(job, "no repetition was taken");
  if (job.status == Status::failed) {
    for (const Side& side : c.sides)
      if (side.job == job.name) job.repro = c.repro(side);
    return;
  }
  results::CpuWindow around;
  if (job.device == results::Device::cpu) {  // a GPU's time is its own: what the CPUs did besides says nothing about it
    const CpuUse use = cpu_use(t.begin, CpuSnapshot::now());
    around = {use.wall_s, std::max(0.0, use.foreign_cores), std::max(0.0, use.steal_share)};
  }
  results::decide_contention(s, around);
  s.summary = results::summarise(s.repetitions);
  if (t.runner->restores()) s.flags.emplace_back(results::flag::kRestored);
  if (t.sampler.synchronises()) s.flags.emplace_back(results::flag::kSynchronises);
  if (!job.step && s.scope == Scope::call) {
    worker::works_on(Phase::profile, job.name, first_limit_s(c));
    const NvtxRange of_series(*t.range);
    const NvtxRange range(phases().profile);
    job.step = c.profile_step(*t.runner);
    if (job.step) {
      // Nodes are timed by the wall clock, so the whole is too: by the call with most threads, which comes first.
      job.step->residual_s = s.summary.median_s;
      for (const auto& [op, time_s] : job.step->nodes_s) job.step->residual_s -= time_s;
    }
  }
  job.series.push_back(std::move(s));
}

}  // namespace duet::bench
