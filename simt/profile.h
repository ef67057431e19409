// SPDX-License-Identifier: Apache-2.0
// The static profile of CUDA kernels: the memory requests of their warps and the share of active lanes, counted while
// the host runs them (simt/simt.h). Deterministic; it says nothing about time, and serves to compare versions of a
// kernel. Loads that g++ merged or dropped are not counted, caches are not modelled, and after divergence the n-th
// executions of lanes are taken together. Used by `duet kernel-profile` and tests/simt/kernel_profile.py.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/grid.h"

namespace duet {

enum class MemoryOp : uint8_t { load, store, atomic };

// All accesses of one kernel that come from one source line, have one size and go to one kind of memory.
struct AccessLine {
  std::string at;  // "kernels/vector.cuh:46 (in kernels/norm/softmax_tuned.cu:38)"
  bool shared = false;
  MemoryOp op = MemoryOp::load;
  uint32_t bytes = 0;                // of one lane's access
  uint64_t requests = 0, lanes = 0;  // lanes: of all requests
  // global: 32-byte sectors; shared: wavefronts (32 banks of 4 bytes; accesses of 8 and 16 bytes in halves and quarters
  // of a warp). ideal: the minimum for the bytes requested. worst: the maximum of one request.
  uint64_t cost = 0, ideal = 0, worst = 0;
  uint64_t same_address = 0;  // of each request, the maximum number of lanes on one address; summed
};
struct PartlyFilled {  // a basic block that warps enter with fewer than 32 active lanes
  std::string at;
  uint64_t executions = 0, lanes = 0;
};

struct KernelProfile {
  std::string name;                // "softmax_kernel<float, 32, 4>"
  const void* function = nullptr;  // on the host
  Grid grid;                       // of the last launch
  uint64_t launches = 0, blocks = 0, blocks_run = 0, block_barriers = 0, static_shared_bytes = 0;
  uint64_t block_executions = 0, block_lanes = 0;  // basic blocks: by warps, and by lanes
  uint64_t bytes_read = 0, bytes_written = 0;      // of global memory: distinct bytes, in the blocks that ran
  std::vector<AccessLine> lines;
  std::vector<PartlyFilled> partly_filled;

  double warp_efficiency() const;  // lanes / (32 x entries) over all basic blocks
  struct Sum {
    uint64_t requests = 0, cost = 0, ideal = 0;
  };
  Sum sum(bool shared, MemoryOp op) const;
};

// Counts while `work` runs plans on a context of open_simt(). The kernels are in order of their first launch.
std::vector<KernelProfile> profile_kernels(const std::function<void()>& work);

struct Occupancy {
  int blocks = 0;     // resident on a multiprocessor at once
  double warps = 0;   // resident warps / maximum of a multiprocessor
  std::string limit;  // what limits them: "registers", "shared memory", "warps", "blocks"
};
// By CUDA's own rules (cuda_occupancy.h). architecture: 80 or 90; nothing for others.
std::optional<Occupancy> theoretical_occupancy(int architecture, int threads, int registers, int64_t shared_bytes);

}  // namespace duet
