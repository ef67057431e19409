// SPDX-License-Identifier: Apache-2.0
// The roof of a row: the time that the ceilings of its own device allow, compared with the time that it took.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.h"
#include "results/run.h"

namespace duet::bench {

// The bandwidth pattern that moves memory as these tensors do, or two joined by '|': then the faster one is the roof.
// A GPU has no clear: it writes zeros as it does other values.
std::string pattern_of(const std::vector<TensorSpec>& tensors);

// What a row did and how long it took.
struct Work {
  std::string device, dtype, math;  // "cpu" or "gpu"; as a label spells them: "bf16", "tf32"
  int64_t threads = 1;              // counts on a CPU only
  std::string pattern;
  int64_t footprint_bytes = 0;
  bool cold = false;  // nothing was in a cache, so the largest footprint is the one that counts
  double flops = 0, bytes = 0, measured_s = 0;
};
// The times that the ceilings of the run allow for the work, by what bounds it. compute: null without arithmetic.
struct RoofTimes {
  const Ceiling *memory = nullptr, *compute = nullptr;
  double memory_s = 0, compute_s = 0;
  bool by_compute() const { return compute_s > memory_s; }
  const Ceiling& bound() const { return by_compute() ? *compute : *memory; }
};
// Empty when a ceiling that the row needs is missing, and when the row does nothing. Ignores measured_s.
std::optional<RoofTimes> roof_times(const std::vector<Ceiling>& ceilings, const Work& work);

// Empty when a ceiling that the row needs is missing, when the row does nothing and when its time is not a time.
std::optional<results::Roof> roof_of(const std::vector<Ceiling>& ceilings, const Work& work);

// Of the multiplications of the job's formula, those that its algorithm has. Minimal filtering F(m x m, r x r) has
// (m + r - 1)^2 for m^2 r^2 (Lavin and Gray, arXiv:1509.09308), beside additions, which are not counted. Other
// algorithms have all of them.
double share_of_multiplications(const results::Job& job);

// What a series of the job did; its time is the series' median.
// Of the multiplications of its formula, it has those of the plan's algorithm.
Work work_of(const results::Job& job, const results::Series& series);

// Sets the roof of each series, the flags that follow from it and the job's verdict, in place of what was there. A
// series whose repetitions hold the samples of an adjacent probe gets its share from them; the ceilings then only
// name the bound. gpu_cache_bytes: the last cache of the run's GPU; 0 where there is none.
void annotate_roof(const std::vector<Ceiling>& ceilings, results::Job& job, int64_t gpu_cache_bytes = 0);
void annotate_roof(const results::Run& run, results::Job& job);

}  // namespace duet::bench
