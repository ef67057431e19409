// SPDX-License-Identifier: Apache-2.0
#include "bench/repetition.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/describe.h"
#include "bench/stop.h"
#include "bench/worker.h"
#include "core/error.h"
#include "core/gpu.h"
#include "core/gpu_counters.h"
#include "results/rules.h"
#include "results/statistics.h"

namespace duet::bench {
namespace {

// The roof is probed between slices of a repetition. A slice is so short that the machine changes its speed rarely
// within one, and a repetition has a few of them at least.
constexpr double kSlice_s = 10e-3;
constexpr int kMinSlices = 3;
constexpr double kProbeShare = 0.3;  // of a slice
constexpr int kBackIntoCaches = 2;   // applications

// Samples of the roof for a share of a slice.
std::vector<double> probe_roof(SeriesTiming& t, double slice_s, std::vector<double>& slowdowns) {
  std::vector<double> roof_s;
  double spent_s = 0;
  t.probe->warm_up();
  do {
    roof_s.push_back(t.probe->sample());
    slowdowns.push_back(t.probe->slowdown());
    spent_s += t.probe->sample_wall_s();
  } while (spent_s < kProbeShare * slice_s);
  return roof_s;
}

// After a probe: brings the row's data back into the caches that a warm row finds them in.
void refill_caches(SeriesTiming& t, double slice_s) {
  if (t.series.cache == Cache::warm && t.probe->takes_caches() && t.counts.sample_s < slice_s)
    t.sampler.apply(std::min(kBackIntoCaches, t.sampler.applications()));
}

}  // namespace

SeriesTiming::SeriesTiming(std::string name, std::shared_ptr<Runner> runner, Scope scope, Cache cache, int threads,
                           double clock_read_s)
    : name(std::move(name)), runner(std::move(runner)), sampler(*this->runner, scope, cache, clock_read_s) {
  series.scope = scope;
  series.cache = cache;
  series.threads = threads;
}

const PhaseNames& phases() {
  static const PhaseNames names;
  return names;
}

results::Repetition take_repetition(SeriesTiming& t, double budget_s, int order, int attempt,
                                    const std::function<void(double)>& report) {
  results::Repetition r;
  r.order = order;
  const double slice_s = std::min(kSlice_s, t.counts.sample_s * t.counts.samples / kMinSlices);
  double slice_left_s = slice_s;
  std::vector<std::vector<double>> roof_s;  // before each slice, and after the last
  std::vector<double> slowdowns;
  std::vector<size_t> slice_of_sample;
  // Before outputs are overwritten, so that a sample has to write them.
  t.sampler.wake(budget_s);
  if (t.probe) {
    roof_s.push_back(probe_roof(t, slice_s, slowdowns));
    refill_caches(t, slice_s);
  }
  t.runner->begin_repetition(static_cast<int>(t.series.repetitions.size()), t.counts.repetitions);
  t.sampler.refresh_uploads();
  const CpuSnapshot before = CpuSnapshot::now();
  {
    const NvtxRange range(phases().measure);
    const bool fixes_counts = t.series.repetitions.empty();  // CaseTimer takes it again where it is too short
    double took_s = 0;
    bool is_last = false;
    for (int i = 0; !is_last && !stop_is_requested(); ++i) {
      worker::beat();
      if (t.probe && slice_left_s <= 0) {
        roof_s.push_back(probe_roof(t, slice_s, slowdowns));
        refill_caches(t, slice_s);
        slice_left_s = slice_s;
      }
      is_last = fixes_counts ? i + 1 == t.counts.samples : t.sampler.one_more_will_do(budget_s, i, took_s);
      const int count = is_last ? i + 1 : std::max(t.counts.samples, i + 2);
      t.runner->before_sample(i, count);
      const double time_s = t.sampler.sample();
      t.runner->after_sample(i, count);
      if (!(time_s > 0)) throw Error("the clock gave {} s for a sample", time_s);
      r.samples_s.push_back(time_s);
      slice_of_sample.push_back(roof_s.size());
      took_s += time_s * t.sampler.applications();
      slice_left_s -= time_s * t.sampler.applications();
      if (attempt == 0) report(time_s);
    }
    // Nothing is applied after it: what is verified is the last sample.
    if (t.probe && !stop_is_requested()) roof_s.push_back(probe_roof(t, slice_s, slowdowns));
  }
  // What the roof allowed while a slice ran: the median of the probes on both sides of it.
  std::vector<double> of_slice;
  for (size_t k = 0; k + 1 < roof_s.size(); ++k) {
    roof_s[k].insert(roof_s[k].end(), roof_s[k + 1].begin(), roof_s[k + 1].end());
    of_slice.push_back(results::median(roof_s[k]));
  }
  for (const size_t slice : slice_of_sample)
    if (slice > 0 && slice <= of_slice.size()) r.roof_s.push_back(of_slice[slice - 1]);
  if (r.roof_s.size() < r.samples_s.size()) r.roof_s.clear();  // a stop in the middle
  const CpuUse use = cpu_use(before, CpuSnapshot::now());
  r.wall_s = use.wall_s;
  r.foreign_cores = std::max(0.0, use.foreign_cores);
  r.steal_share = std::max(0.0, use.steal_share);
  if (results::shows_contention(use.wall_s) && results::contended(use.foreign_cores, use.steal_share))
    r.flags.emplace_back(results::flag::kContended);
  if (!slowdowns.empty() && results::slowed(results::median(slowdowns))) r.flags.emplace_back(results::flag::kSlowed);
  if (const auto clock = gpu_clock(t.runner->context())) {
    r.sm_clock_mhz = clock->sm_mhz;
    const auto limits = gpu_limits(t.runner->context());
    if (limits) r.memory_clock_mhz = limits->memory_mhz;
    if (clock->throttled) {
      r.throttled_by =
          limits && !limits->throttled_by.empty() ? limits->throttled_by : "a reason that was over at once";
      r.flags.emplace_back(results::flag::kThrottled);
    }
  }
  if (attempt > 0) r.flags.emplace_back(results::flag::kRetried);
  return r;
}

}  // namespace duet::bench
