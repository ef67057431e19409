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
// Empty when a ceiling that the row needs is missing, when the row does nothing and when its time is not a time.
std::optional<results::Roof> roof_of(const std::vector<Ceiling>& ceilings, const Work& work);

// Sets the roof of each series, the flags that follow from it and the job's verdict, in place of what was there.
void annotate_roof(const std::vector<Ceiling>& ceilings, results::Job& job);

}  // namespace duet::bench
