// SPDX-License-Identifier: Apache-2.0
#include "bench/roof_probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/device_queue.h"
#include "results/rules.h"

namespace duet::bench {
namespace {
using Clock = std::chrono::steady_clock;
using results::Scope;

// What bounds a row less by this factor than the other is not probed: it cannot become the bound while the row is
// timed.
constexpr double kFarBelow = 0.4;
constexpr Trial kTrial{.budget_s = 15e-3, .max_samples = 20}, kLongTrial{.budget_s = 80e-3, .max_samples = 200};
constexpr int64_t kShortTrial = 4 << 20;  // bytes: smaller footprints are tried one by one, which takes little time
// 2^30 operations take milliseconds on most CPUs, 2^40 on most GPUs: such rows share one probe.
constexpr int kMaxShortPower = 30, kMaxShortGpuPower = 40;
// Passes, until a cache that the footprint exceeds keeps what it keeps in a long loop: that may take more than two.
constexpr int kWarmUps = 2, kMaxWarmUps = 8;
constexpr double kWarmUp_s = 5e-3;
// Multiply-adds that the ceiling allows in less time than this, or than so many forks, are not compared with it: a fork
// adds as much as a slowed CPU. kForkShare: of the time of longer ones, what forks add.
constexpr double kMinCompared_s = 20e-6, kManyForks = 10, kForkShare = 0.2;
constexpr int kComparedRuns = 5;
constexpr double kLongCall_s = 1e-3;  // on a GPU: a launch and a wait count for nothing beside it
}  // namespace

// --- one row

void RoofProbe::add(Part part, double work) {
  Context& context = clock_.context();
  part.applications = part.pass->amount / work;
  context.enter([&] {
    // A call on a GPU waits once for all of its work.
    if (context.device() != Device::cpu) {
      double once_s = clock_.seconds(*part.pass, 1);  // the shortest of a few: one may have been interrupted
      for (int i = 0; i < kWarmUps; ++i) once_s = std::min(once_s, clock_.seconds(*part.pass, 1));
      part.runs =
          static_cast<int64_t>(std::clamp(std::ceil(1 / part.applications), 1.0, std::ceil(kLongCall_s / once_s)));
    }
    part.batch = clock_.batch_for(*part.pass, min_sample_s(context), part.runs);
  });
  parts_.push_back(std::move(part));
}

void RoofProbe::warm_up() {
  if (clock_.cold()) return;
  clock_.context().enter([&] {
    for (const Part& part : parts_) {
      double spent_s = 0;
      for (int i = 0; part.cached && (i < kWarmUps || (i < kMaxWarmUps && spent_s < kWarmUp_s)); ++i)
        spent_s += clock_.seconds(*part.pass, 1);
    }
  });
}

bool RoofProbe::takes_caches() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.cached; });
}

double RoofProbe::sample() {
  double allowed_s = 0;
  slowdown_ = 1;
  const auto start = Clock::now();
  clock_.context().enter([&] {
    for (const Part& part : parts_) {
      const double run_s =
          clock_.seconds(*part.pass, part.batch, part.runs) / static_cast<double>(part.batch * part.runs);
      allowed_s = std::max(allowed_s, run_s / part.applications);
      if (!part.shortest_s) continue;
      *part.shortest_s = std::min(*part.shortest_s, run_s);
      slowdown_ = run_s / *part.shortest_s;
    }
  });
  wall_s_ = std::chrono::duration<double>(Clock::now() - start).count();
  return allowed_s;
}

// --- all rows of a context

RoofProbes::RoofProbes(Context& context, std::unique_ptr<Passes> passes, const std::vector<Ceiling>& ceilings)
    : context_(context), passes_(std::move(passes)), ceilings_(ceilings) {}

// On a CPU, smaller footprints are as fast as the smallest one that has a ceiling, since a call counts for less in it;
// on a GPU a launch takes a part of a short row, and of its roof. Those far beyond the caches are as slow as the
// largest.
int64_t RoofProbes::footprint_of(const Work& work) const {
  int64_t smallest = std::numeric_limits<int64_t>::max(), largest = 1;
  for (const Ceiling& c : ceilings_) {
    if (c.device != work.device || c.pattern.empty() || c.threads != work.threads) continue;
    smallest = std::min(smallest, c.footprint_bytes);
    largest = std::max(largest, c.footprint_bytes);
  }
  if (context_.device() != Device::cpu) smallest = 1;
  const int64_t footprint = std::clamp(work.footprint_bytes, std::min(smallest, largest), largest);
  return far_beyond(footprint, passes_->cache_bytes()) ? largest : footprint;
}

PassClock RoofProbes::trial_clock(bool cold) const {
  return {context_, device_queue(context_) ? Scope::kernel : Scope::call, cold};
}

std::shared_ptr<Pass> RoofProbes::memory(const Work& work, bool again) {
  const int64_t footprint = footprint_of(work);
  std::shared_ptr<Pass>& pass = memory_passes_[{work.pattern, footprint, work.cold}];
  if (pass && !again) return pass;
  const int64_t alike = footprint < kShortTrial ? footprint : std::ilogb(static_cast<double>(footprint));
  std::shared_ptr<Pass>& tried = tried_[{work.pattern, alike, work.cold}];
  context_.enter([&] {
    if (!tried || again)
      tried = fastest(trial_clock(work.cold), passes_->memory(work.pattern, footprint), again ? kLongTrial : kTrial);
    if (tried) pass = tried->resized(footprint);
  });
  return pass;
}

// A short row spends part of its time on forks or on a launch, and waits for threads that do not get a core at once.
// Its probe is as short, rounded up to a power of 2, and so meets the same.
RoofProbe::Part RoofProbes::compute(const Work& work, const std::string& dtype, double peak, bool again) {
  const int max_power = context_.device() == Device::cpu ? kMaxShortPower : kMaxShortGpuPower;
  const int power = std::min(max_power, static_cast<int>(std::ceil(std::log2(work.flops))));
  const double max_operations = power < max_power ? std::exp2(power) : std::numeric_limits<double>::infinity();
  RoofProbe::Part& kept = compute_passes_[{dtype, power}];
  if (kept.pass && !again) return kept;
  RoofProbe::Part part;
  context_.enter([&] {
    part.pass = fastest(trial_clock(false), passes_->compute(dtype, max_operations), again ? kLongTrial : kTrial);
  });
  if (part.pass) part.shortest_s = by_ceiling(*part.pass, work.threads, peak);
  // Chosen while the CPUs are slow, when one thread may be as fast as two, it serves no other row.
  if (part.shortest_s && results::slowed(shortest_run(*part.pass) / *part.shortest_s)) return part;
  return kept = part;
}

double RoofProbes::shortest_run(Pass& pass) {
  double shortest_s = std::numeric_limits<double>::infinity();
  context_.enter([&] {
    for (int i = 0; i < kComparedRuns; ++i) shortest_s = std::min(shortest_s, trial_clock(false).seconds(pass, 1));
  });
  return shortest_s;
}

std::shared_ptr<double> RoofProbes::by_ceiling(const Pass& pass, int64_t threads, double peak) const {
  if (context_.device() != Device::cpu) return nullptr;
  double fork_s = 0;
  for (const Ceiling& c : ceilings_)
    if (c.name == "cpu.fork_join" && c.threads == threads) fork_s = c.value;
  const double peak_s = pass.amount / peak;
  if (peak_s < std::max(kMinCompared_s, kManyForks * fork_s)) return nullptr;
  return std::make_shared<double>((1 + kForkShare) * peak_s);
}

std::shared_ptr<RoofProbe> RoofProbes::probe(const Work& work, Scope scope, bool again) {
  const std::optional<RoofTimes> times = roof_times(ceilings_, work);
  if (!times) return nullptr;
  std::shared_ptr<RoofProbe> probe(new RoofProbe(PassClock(context_, scope, work.cold)));
  const double bound_s = std::max(times->memory_s, times->compute_s);
  if (work.bytes > 0 && times->memory_s > kFarBelow * bound_s) {
    auto pass = memory(work, again);
    if (!pass) return nullptr;
    probe->add({.pass = std::move(pass), .cached = !far_beyond(footprint_of(work), passes_->cache_bytes())},
               work.bytes);
  }
  if (work.flops > 0 && times->compute_s > kFarBelow * bound_s) {
    RoofProbe::Part part = compute(work, times->compute->dtype, times->compute->value, again);
    if (!part.pass) return nullptr;
    if (work.cold) part.shortest_s = nullptr;  // threads may have to wake up after the caches are emptied by one
    probe->add(std::move(part), work.flops);
  }
  return probe->parts_.empty() ? nullptr : probe;
}

}  // namespace duet::bench
