// SPDX-License-Identifier: Apache-2.0
// The rules of device memory: every access of a kernel is checked when it is made. The executor calls this for
// launches, blocks and barriers; the instrumentation (hooks.cpp) calls it for accesses.
#pragma once
#include <cstddef>
#include <cstdint>

#include "simt/host/lines.h"

namespace duet::simt::host {

enum class Access : uint8_t { load, store, atomic };
constexpr int kNamedBarriers = 16;  // of a block

class Checker {
 public:
  // What orders two accesses:
  // - a block barrier orders all threads of a block; __syncwarp the lanes of its mask; a named barrier the threads that
  //   arrive before those that wait; shuffles, votes and tensor-core instructions order no memory;
  // - blocks of a launch are unordered, unless both executed __threadfence; launches are ordered;
  // - atomics do not race with atomics.
  static void begin_launch();
  static void begin_block(uint32_t threads, uint32_t block);
  static void block_barrier();
  static void warp_barrier(uint32_t warp, uint32_t mask, uint32_t all);  // all: the lanes that the warp has
  static void release_barrier(int barrier, uint32_t thread);             // on arrival at a named barrier
  static void acquire_barrier(int barrier, uint32_t thread);             // when a thread that waited continues
  static void reset_barrier(int barrier);
  static void fence();

  // The current thread accesses memory. Anything but device memory, the kernel's stack and the program's constants is
  // refused.
  static void access(const void* address, size_t bytes, Access kind, Pc pc, bool aligned = false);
  // An asynchronous copy was issued (its target holds nothing until it lands), or has landed.
  static void in_flight(void* target, size_t bytes, Pc pc);
  static void landed(void* target, size_t bytes, Pc pc);
};

}  // namespace duet::simt::host
