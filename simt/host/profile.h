// Counts what warps ask of memory and how full they are, while a kernel runs under the checker. Deterministic, and no time.
// One request is the set of accesses with equal (warp, instruction, n-th execution by its thread): exact where the lanes of
// a warp take the same path, approximate after divergence in nested loops. It sees the loads that g++ kept.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/grid.h"
#include "simt/host/checker.h"
#include "simt/host/lines.h"

namespace duet::simt::host {

// All accesses of one kernel that come from one source line, have one size and go to one kind of memory.
struct AccessLine {
  std::string at;
  bool shared = false;
  Access kind = Access::load;
  uint32_t bytes = 0;  // of one lane's access
  uint64_t requests = 0, lanes = 0;
  // global: 32-byte sectors; shared: wavefronts (32 banks of 4 bytes; accesses of 8 and 16 bytes in halves and quarters of
  // a warp). ideal: the fewest that hold the bytes asked for. worst: of one request.
  uint64_t cost = 0, ideal = 0, worst = 0;
  uint64_t same_address = 0;  // of each request, the most lanes on one address; summed
};
struct PartlyFilled {
  std::string at;
  uint64_t executions = 0, lanes = 0;
};

struct KernelProfile {
  std::string name;  // "softmax_kernel<float, 32, 4>"
  Grid grid;
  uint64_t launches = 0, blocks = 0, blocks_run = 0, block_barriers = 0, static_shared_bytes = 0;
  uint64_t block_executions = 0, block_lanes = 0;  // basic blocks: by warps, and by lanes
  uint64_t bytes_read = 0, bytes_written = 0;      // of global memory: distinct bytes, in the blocks that ran
  std::vector<AccessLine> lines;
  std::vector<PartlyFilled> partly_filled;

  double warp_efficiency() const {
    return block_executions ? static_cast<double>(block_lanes) / (32.0 * static_cast<double>(block_executions)) : 1;
  }
  // Sectors of global memory that loads, stores or atomics asked for, and the fewest that would do; wavefronts alike.
  struct Sum {
    uint64_t requests = 0, cost = 0, ideal = 0;
  };
  Sum sum(bool shared, Access kind) const;
};

class Profile {
 public:
  Profile();
  ~Profile();
  std::vector<KernelProfile> kernels();  // in order of first launch

  void begin_launch(const void* kernel, const Grid& grid, uint64_t blocks_run);
  void access(uint32_t thread, Pc pc, uint64_t address, uint32_t bytes, bool shared, Access kind);
  void basic_block(uint32_t thread, Pc pc);
  void block_barrier();
  void shared_array(uint64_t bytes);
  void end_block();
  void end_launch();

 private:
  struct Kernel;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  Kernel* now_ = nullptr;
};

}  // namespace duet::simt::host
