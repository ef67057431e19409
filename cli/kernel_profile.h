// SPDX-License-Identifier: Apache-2.0
// duet kernel-profile: what a job's kernels ask of memory, without a GPU. Analysis, not time.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/registry.h"
#include "simt/profile.h"

namespace duet {

struct KernelProfileOptions {
  std::string job;      // "softmax/cuda.tuned/f32/rows:64/cols:1000"; cuda.* and simt.* mean the same kernels
  uint64_t blocks = 0;  // of a launch, besides the first and the last; 0: all
  uint64_t seed = 1;    // of the inputs, and of the choice of blocks
  bool table = false;   // for people, instead of JSON
};
int run_kernel_profile(const KernelProfileOptions& options);

// Runs the job once on the host and counts. `implementation`: simt.*. Throws Error where it does not serve the case.
std::vector<KernelProfile> profile_job(const Problem& problem, const Implementation& implementation, uint64_t blocks,
                                       uint64_t seed);
nlohmann::ordered_json profile_json(const std::string& job, const Problem& problem,
                                    const std::vector<KernelProfile>& kernels);

}  // namespace duet
