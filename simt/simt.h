// SPDX-License-Identifier: Apache-2.0
// CUDA kernels on the host: the way in for programs that also exist without it. simt/host/ implements it; simt/off/ says why
// not. A kernel that passes here is checked, not tested on a GPU: logic, indexing and synchronisation for the shapes that
// were run. It says nothing about time.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/context.h"

namespace duet {

struct SimtOptions {
  enum class Order : uint8_t { forward, reverse, shuffled };
  Order order = Order::forward;  // in which threads and blocks run
  uint64_t seed = 1;             // of shuffled, and of the choice of blocks
  int64_t blocks = 0;            // run only the first, the last and this many of a launch in between; 0: all
  int multiprocessors = 132;     // what kernels are told, and choose their tiles by
};

// Null with `reason` set where the build has no host runner. Its jobs are those named simt.*; a kernel that breaks a rule
// throws Error with the report.
std::unique_ptr<Context> open_simt(std::string& reason, const SimtOptions& options = {});

}  // namespace duet
