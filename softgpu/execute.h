// SPDX-License-Identifier: Apache-2.0
// Runs a kernel: block after block (of a cooperative launch each until it only waits, in turn), and in a block warp
// after warp, each until it waits at a barrier. Within a warp, lanes that a branch has divided run as paths; the path
// at the lowest instruction goes first, and paths that meet become one.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "softgpu/program.h"
#include "softgpu/warp.h"

namespace duet::softgpu {

struct Extent3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t volume() const { return uint64_t{x} * y * z; }
};

struct Launch {
  const Kernel* kernel = nullptr;
  Extent3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;
  std::vector<uint8_t> parameters;
};

struct ExecutorOptions {
  bool reverse = false;                             // blocks and warps from the last to the first
  uint64_t max_warp_instructions = 20'000'000'000;  // of one launch; a kernel that runs longer is taken to be endless
};

struct ExecutorCounts {
  uint64_t launches = 0, blocks = 0, warp_instructions = 0, thread_instructions = 0;
  double seconds = 0;
};

// What a kernel did wrong, with kernel, source line, line of the PTX, block and thread.
struct KernelError : Error {
  KernelError(const std::string& text, Fault::Kind kind) : Error(text), kind(kind) {}
  Fault::Kind kind;
};

// Throws KernelError.
void execute(const Launch& launch, const ExecutorOptions& options, ExecutorCounts& counts);

}  // namespace duet::softgpu
