// SPDX-License-Identifier: Apache-2.0
// duet kernel-profile: runs a job's CUDA kernels on the host, without a GPU, and counts their memory requests. It
// measures no time. Called by main.cpp.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace duet {

struct KernelProfileOptions {
  std::vector<std::string> jobs;  // "softmax/cuda.tuned/f32/rows:64/cols:1000"; simt.* means the same kernels
  uint64_t blocks = 0;            // to run of each launch, besides those at the corners of its grid; 0: all
  uint64_t seed = 1;              // of the inputs and of the choice of blocks
  bool table = false;             // print tables instead of JSON
};
// Prints an object for one job, or an array with one for each of several, once all have run. Returns 0, or
// kUnsupported where the kernels cannot be run here. Throws Error on wrong usage.
int run_kernel_profile(const KernelProfileOptions& options);

}  // namespace duet
