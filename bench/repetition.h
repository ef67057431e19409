// SPDX-License-Identifier: Apache-2.0
// Takes one repetition of a series: its samples in slices, with samples of its roof before and after each slice.
// CaseTimer decides when, and which repetitions count.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench/roof_probe.h"
#include "bench/runner.h"
#include "bench/sampler.h"
#include "core/machine.h"
#include "core/nvtx.h"
#include "results/run.h"

namespace duet::bench {

// A series while it is taken.
struct SeriesTiming {
  SeriesTiming(std::string name, std::shared_ptr<Runner> runner, Scope scope, Cache cache, int threads,
               double clock_read_s);
  std::string name;  // of the benchmark: job/scope/cache/threads:N
  std::optional<NvtxName> range;
  std::shared_ptr<Runner> runner;
  Sampler sampler;
  Sampler::Counts counts;
  std::shared_ptr<RoofProbe> probe;  // null: its roof comes from the ceilings of the run
  bool probe_is_confirmed = false;
  results::Series series;
  results::Job* job = nullptr;
  double limit_s = 0;  // of a repetition: longer is a hang
  CpuSnapshot begin;   // of the work on its case
};

// A series is measured in the range `measure`; docs/profiling.md has the others.
struct PhaseNames {
  NvtxName prepare{"prepare"}, setup{"setup"}, warmup{"warmup"}, measure{"measure"}, verify{"verify"},
      profile{"profile"}, count{"count"};
};
const PhaseNames& phases();  // made at first use: before main, NVTX is not to be called

// order: of all repetitions of the run. attempt: from 0; a further one is taken where that one was disturbed.
// report(seconds): gets the samples of the first attempt. Ends early, with fewer samples, where a stop is requested.
results::Repetition take_repetition(SeriesTiming& t, double budget_s, int order, int attempt,
                                    const std::function<void(double)>& report);

}  // namespace duet::bench
