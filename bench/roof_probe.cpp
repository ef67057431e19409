// SPDX-License-Identifier: Apache-2.0
#include "bench/roof_probe.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

namespace duet::bench {
namespace {
using Clock = std::chrono::steady_clock;

// What bounds a row less by this factor than the other is not probed: it cannot become the bound while the row is
// timed.
constexpr double kFarBelow = 0.4;
constexpr Trial kTrial{.budget_s = 15e-3, .max_samples = 20}, kLongTrial{.budget_s = 80e-3, .max_samples = 200};
constexpr int64_t kShortTrial = 4 << 20;  // bytes: smaller footprints are tried one by one, which takes little time
constexpr int kMaxShortPower = 30;        // 2^30 operations take milliseconds on most CPUs: such rows share one probe
constexpr int kWarmUps = 2;  // passes, until a cache that the footprint exceeds keeps what it keeps in a long loop

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// --- one row

void RoofProbe::add(std::shared_ptr<CpuPass> pass, double work, bool cached) {
  Part part{.pass = std::move(pass), .cached = cached};
  part.applications = part.pass->amount / work;
  cpu_.enter([&] {
    if (!cold_) part.batch = batch_for(*part.pass, kMinSample_s);
  });
  parts_.push_back(std::move(part));
}

void RoofProbe::warm_up() {
  if (cold_) return;
  cpu_.enter([&] {
    for (const Part& part : parts_)
      for (int i = 0; part.cached && i < kWarmUps; ++i) part.pass->run();
  });
}

double RoofProbe::sample() {
  double allowed_s = 0;
  const auto start = Clock::now();
  cpu_.enter([&] {
    for (const Part& part : parts_) {
      if (cold_) part.pass->evict();
      const double runs = part.applications * static_cast<double>(part.batch);
      allowed_s = std::max(allowed_s, time_runs(*part.pass, part.batch) / runs);
    }
  });
  wall_s_ = since(start);
  return allowed_s;
}

// --- all rows of a context

RoofProbes::RoofProbes(CpuContext& cpu, const std::vector<Ceiling>& ceilings)
    : cpu_(cpu), ceilings_(ceilings), memory_(cpu) {
  for (const Ceiling& c : ceilings) {
    if (c.device != "cpu" || c.footprint_bytes == 0 || c.threads != cpu.threads()) continue;
    min_footprint_ = min_footprint_ == 0 ? c.footprint_bytes : std::min(min_footprint_, c.footprint_bytes);
    max_footprint_ = std::max(max_footprint_, c.footprint_bytes);
  }
}

// Smaller footprints are as fast as the smallest one that has a ceiling, since a call counts for less in it. Those far
// beyond the caches are as slow as the largest.
int64_t RoofProbes::footprint_of(const Work& work) const {
  const int64_t footprint = std::clamp(work.footprint_bytes, min_footprint_, max_footprint_);
  return far_beyond_caches(footprint) ? max_footprint_ : footprint;
}

std::shared_ptr<CpuPass> RoofProbes::memory(const Work& work, bool again) {
  const int64_t footprint = footprint_of(work);
  std::shared_ptr<CpuPass>& pass = memory_passes_[{work.pattern, footprint, work.cold}];
  if (pass && !again) return pass;
  const int64_t alike = footprint < kShortTrial ? footprint : std::bit_width(static_cast<uint64_t>(footprint));
  std::shared_ptr<CpuPass>& tried = tried_[{work.pattern, alike, work.cold}];
  cpu_.enter([&] {
    if (!tried || again)
      tried = memory_pass(cpu_, memory_, work.pattern, footprint, work.cold, again ? kLongTrial : kTrial);
    pass = tried->resized(footprint);
  });
  return pass;
}

// A short row spends part of its time on forks, and waits for threads that do not get a core at once. Its probe is as
// short, rounded up to a power of 2, and so meets the same forks and waits.
std::shared_ptr<CpuPass> RoofProbes::compute(const Work& work, const std::string& dtype, bool again) {
  const int power = std::min(kMaxShortPower, static_cast<int>(std::ceil(std::log2(work.flops))));
  const double max_operations = power < kMaxShortPower ? std::exp2(power) : std::numeric_limits<double>::infinity();
  std::shared_ptr<CpuPass>& pass = compute_passes_[{dtype, power}];
  if (!pass || again)
    cpu_.enter([&] { pass = compute_pass(cpu_, dtype, again ? kLongTrial : kTrial, max_operations); });
  return pass;
}

std::shared_ptr<RoofProbe> RoofProbes::probe(const Work& work, bool again) {
  const std::optional<RoofTimes> times = roof_times(ceilings_, work);
  if (!times) return nullptr;
  std::shared_ptr<RoofProbe> probe(new RoofProbe(cpu_, work.cold));
  const double bound_s = std::max(times->memory_s, times->compute_s);
  if (work.bytes > 0 && times->memory_s > kFarBelow * bound_s)
    probe->add(memory(work, again), work.bytes, !far_beyond_caches(footprint_of(work)));
  if (work.flops > 0 && times->compute_s > kFarBelow * bound_s)
    if (auto pass = compute(work, times->compute->dtype, again)) probe->add(std::move(pass), work.flops, false);
  return probe->parts_.empty() ? nullptr : probe;
}

}  // namespace duet::bench
