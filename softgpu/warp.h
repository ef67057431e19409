// SPDX-License-Identifier: Apache-2.0
// State of a running block and its warps, as handlers of instructions see it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "softgpu/memory.h"
#include "softgpu/program.h"

namespace duet::softgpu {

// A copy that cp.async has started and that has not landed.
struct AsyncCopy {
  uint32_t lane, to, bytes, source_bytes, group;
  uint64_t from;
};

// Sums of wgmma that no wait has brought into their registers yet.
struct AsyncSums {
  const int* places;  // of the registers
  uint32_t group;
  std::vector<uint32_t> values;  // register by register
};

// Rows of an operand in shared memory of a wgmma that no wait has covered yet (forms_warpgroup.cpp).
struct HeldMatrix {
  uint64_t start, along_depth, along_rows;  // bytes
  bool transposed, swizzled;
  int first, rows;
  uint32_t group;
};

// Lanes of a warp that are at the same instruction. Where a branch divides them, a warp has several paths.
struct Path {
  int at = 0;
  uint32_t lanes = 0;
  bool waits = false;  // for other lanes to arrive at the same instruction
};

struct Launch;
struct Block {
  const Launch* launch = nullptr;
  uint32_t index[3] = {};  // %ctaid
  MemoryView shared;
  std::vector<uint16_t> holders;  // of every 16 bytes of shared memory: products of warps that still read them
};

struct Warp {
  uint8_t* registers = nullptr;
  const Kernel* kernel = nullptr;
  Block* block = nullptr;
  const uint8_t* parameters = nullptr;
  std::vector<uint8_t> local;    // kernel->local_bytes of each lane
  uint32_t index = 0, live = 0;  // in the block; lanes that have not exited
  std::vector<Path> paths;
  bool done = false, yielded = false;
  int barrier = kNone;  // at which it waits
  std::vector<AsyncCopy> copies;
  uint32_t groups[kLanes] = {};  // cp.async groups that a lane has committed
  std::vector<AsyncSums> sums;
  std::vector<HeldMatrix> held;
  uint32_t sum_groups = 0;  // wgmma groups that the warp has committed

  template <class T>
  T* at(int place) const {
    return reinterpret_cast<T*>(registers + place);
  }
};

// What a kernel does that no kernel may do. The executor adds where.
struct Fault {
  std::string what;
  int lane = kNone;
  enum class Kind : uint8_t { address, alignment, launch } kind = Kind::launch;
};
[[noreturn]] void fault(std::string what, int lane = kNone, Fault::Kind kind = Fault::Kind::launch);

}  // namespace duet::softgpu
