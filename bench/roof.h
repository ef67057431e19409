// SPDX-License-Identifier: Apache-2.0
// The roof of a row: the time that the ceilings of its own device allow, against the time that it took.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ceiling.h"
#include "core/problem.h"

namespace duet::bench {

struct Roof {
  std::string bound;    // memory, compute: which of the two takes longer
  std::string ceiling;  // its name
  double value = 0;     // ... and what it allows, B/s or FLOP/s
  double fraction = 0;  // of the roof: allowed time / measured time; 1 is as fast as the device goes
};

// The bandwidth pattern that moves memory as these tensors do, or two joined by '|': then the faster one is the roof.
std::string pattern_of(const std::vector<TensorSpec>& tensors);

// device: "cpu", "gpu". dtype, math: as a label spells them ("bf16", "tf32"). threads counts on a CPU only. cold:
// nothing was in a cache, so the largest footprint is the one that counts. Empty when a ceiling that the row needs is
// missing, when the row does nothing and when its time is not a time.
std::optional<Roof> roof_of(const std::vector<Ceiling>& ceilings, const std::string& device, const std::string& dtype,
                            const std::string& math, int threads, const std::string& pattern, int64_t footprint_bytes,
                            bool cold, double flops, double bytes, double measured_s);

}  // namespace duet::bench
