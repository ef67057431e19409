// SPDX-License-Identifier: Apache-2.0
// The static profile of CUDA kernels: what their warps ask of memory and how full they are, counted while the host runs them
// (simt/simt.h). Deterministic, and no time: it compares versions of a kernel. It sees the loads that g++ kept, knows no
// caches, and after divergence pairs the n-th visits of lanes.
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
  // global: 32-byte sectors; shared: wavefronts (32 banks of 4 bytes; accesses of 8 and 16 bytes in halves and quarters of
  // a warp). ideal: the fewest that hold the bytes asked for. worst: of one request.
  uint64_t cost = 0, ideal = 0, worst = 0;
  uint64_t same_address = 0;  // of each request, the most lanes on one address; summed
};
struct PartlyFilled {  // a basic block that warps enter with fewer than 32 lanes
  std::string at;
  uint64_t executions = 0, lanes = 0;
};

struct KernelProfile {
  std::string name;  // "softmax_kernel<float, 32, 4>"
  Grid grid;         // of the last launch
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

// Counts while `work` runs plans on a context of open_simt(). In order of first launch.
std::vector<KernelProfile> profile_kernels(const std::function<void()>& work);

struct Occupancy {
  int blocks = 0;     // of a multiprocessor at once
  double warps = 0;   // share of those it has room for
  std::string limit;  // what allows no more: "registers", "shared memory", "warps", "blocks"
};
// By CUDA's own rules (cuda_occupancy.h), for sm_80, sm_90, ...; nothing for an architecture it does not know.
std::optional<Occupancy> theoretical_occupancy(int architecture, int threads, int registers, int64_t shared_bytes);

}  // namespace duet
