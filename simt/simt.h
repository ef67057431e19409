// SPDX-License-Identifier: Apache-2.0
// CUDA kernels on the host: the interface for programs that are also built without the host runner. simt/host/
// implements it; simt/off/ returns the reason where the build has none. A kernel that passes is checked for logic,
// indexing and synchronisation on the shapes that were run. It is not tested on a GPU, and nothing is known about its
// time.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/context.h"

namespace duet {

struct SimtOptions {
  enum class Order : uint8_t { forward, reverse, shuffled };
  Order order = Order::forward;  // in which threads and blocks run
  uint64_t seed = 1;             // of Order::shuffled, and of the choice of blocks
  // Of a launch, run only the corners of its grid and this many more blocks (all of a cooperative one); 0: all.
  int64_t blocks = 0;
  // Of the emulated GPU. Tuned implementations choose tiles and parts by its size.
  int multiprocessors = 132;
  int capability = 90;  // or 80, which has no wgmma and less shared memory
};

// A context for the implementations named simt.*. Null, with `reason` set, where the build has no host runner. A kernel
// that breaks a rule throws Error with the report.
std::unique_ptr<Context> open_simt(std::string& reason, const SimtOptions& options = {});

}  // namespace duet
