// SPDX-License-Identifier: Apache-2.0
// The rules of device memory: every access of a kernel is judged when it is made. Called by the executor (launches, blocks,
// barriers) and by the instrumentation (accesses).
#pragma once
#include <cstddef>
#include <cstdint>

#include "simt/host/lines.h"

namespace duet::simt::host {

enum class Access : uint8_t { load, store, atomic };

class Checker {
 public:
  // What may follow what:
  // - block barriers order all threads of a block; __syncwarp the lanes of its mask, named barriers who meets there;
  //   shuffles, votes and tensor-core instructions order no memory;
  // - blocks of a launch are unordered, unless both sides went through __threadfence; launches are ordered;
  // - atomics do not race with atomics.
  static void begin_launch();
  static void begin_block(uint32_t threads, uint32_t block);
  static void block_barrier();
  static void warp_barrier(uint32_t warp, uint32_t mask, uint32_t all);  // all: the warp's lanes
  static void arrive(int barrier, uint32_t thread);                      // at a named barrier
  static void depart(int barrier, uint32_t thread);
  static void reset(int barrier);
  static void fence();

  // `thread` touches memory. Anything but device memory, the kernel's stack and the program's constants is refused.
  static void access(const void* address, size_t bytes, Access kind, Pc pc, bool aligned = false);
  // An asynchronous copy was issued (its target holds nothing until it lands), or has landed.
  static void in_flight(void* target, size_t bytes, Pc pc);
  static void landed(void* target, size_t bytes, Pc pc);
};

}  // namespace duet::simt::host
