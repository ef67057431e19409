// SPDX-License-Identifier: Apache-2.0
// Cases of an op that differ in one size alone, with the times that the run measured for them: what a break-even is
// computed from. Nothing is timed for it.
#pragma once
#include <vector>

#include "results/run.h"

namespace duet::bench {

// In the order of the jobs: one sweep for each op, precision and set of other parameters that was measured at three
// sizes or more. Of an op with cases that were chosen as a sweep (their `why` names what varies), those alone. Sizes
// that are equal in each case, as those of square matrices, vary together. A side's time is that of its fastest
// comparable job, warm where it was run so.
std::vector<results::Sweep> sweeps_of(const std::vector<results::Job>& jobs);

}  // namespace duet::bench
