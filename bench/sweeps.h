// SPDX-License-Identifier: Apache-2.0
// Cases of an operation that differ in one size alone, with the times that the run measured for them: what a break-even is
// read from. Nothing is timed for it.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace duet::bench {

// jobs: entries of duet.jobs. Entries of duet.sweeps, in the order of the jobs: one per operation, precision and set of
// other parameters that was measured at three sizes or more. Sizes that are equal in each case, as those of square
// matrices, vary together. A side's time is that of its fastest verified and plausible job, warm where it was run so.
nlohmann::ordered_json sweeps_of(const std::vector<nlohmann::ordered_json>& jobs);

}  // namespace duet::bench
