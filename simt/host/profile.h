// SPDX-License-Identifier: Apache-2.0
// Counts the memory requests of warps and their active lanes, while a kernel runs under the checker. Deterministic; it
// says nothing about time. One request is the set of accesses with equal (warp, instruction, n-th execution by its
// thread): exact where the lanes of a warp take the same path, approximate after divergence in nested loops. Loads that
// g++ merged or dropped are not counted.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "simt/host/checker.h"
#include "simt/host/lines.h"
#include "simt/profile.h"

namespace duet::simt::host {

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
