// SPDX-License-Identifier: Apache-2.0
// The rules of device memory: every access of a kernel is checked when it is made. The executor calls this for
// launches, blocks and barriers; the instrumentation (hooks.cpp) calls it for accesses.
#pragma once
#include <cstddef>
#include <cstdint>

#include "simt/host/lines.h"

namespace duet::simt::host {

enum class Access : uint8_t { load, store, atomic, volatile_load, volatile_store };
constexpr bool writes(Access a) { return a != Access::load && a != Access::volatile_load; }
constexpr bool reads(Access a) { return a != Access::store && a != Access::volatile_store; }
constexpr bool may_be_flag(Access a) { return a != Access::load && a != Access::store; }
constexpr int kNamedBarriers = 16;  // of a block

class Checker {
 public:
  // What orders two accesses:
  // - a block barrier orders all threads of a block; __syncwarp the lanes of its mask; a named barrier the threads that
  //   arrive before those that wait; shuffles, votes and tensor-core instructions order no memory;
  // - a block of a launch comes after another one where a thread of that one fenced and then wrote a flag, and a thread
  //   of this one read the flag and then fenced: what one's block did before its last barrier, and it did before its
  //   fence, happens before what the other does after its fence, and its block after the next barrier. Launches are
  //   ordered, and so are the parts of a cooperative launch before and after a barrier of the grid;
  // - atomic accesses do not race with each other, nor with volatile ones in global memory, where both may be of flags.
  //   In shared memory volatile accesses are plain ones: no thread sees another one's without a barrier.
  static void begin_launch(bool cooperative);
  static void begin_block(uint32_t threads, uint32_t block);  // also where one continues behind a barrier of the grid
  static void grid_barrier();                                 // all blocks have reached it
  // The current thread counts its block at the barrier of the grid. Until the launch ends, nothing else may write the
  // counter: another block may not have seen it yet.
  static void count_block(uint32_t* counter, Pc pc);
  static void block_barrier();
  static void warp_barrier(uint32_t warp, uint32_t mask, uint32_t all);  // all: the lanes that the warp has
  static void release_barrier(int barrier, uint32_t thread);             // on arrival at a named barrier
  static void acquire_barrier(int barrier, uint32_t thread);             // when a thread that waited continues
  static void reset_barrier(int barrier);
  static void fence();
  static void proxy_fence();  // of the current thread: what it wrote to shared memory before, wgmma may read

  // The current thread accesses memory. Anything but device memory, the kernel's stack and the program's constants is
  // refused.
  static void access(const void* address, size_t bytes, Access kind, Pc pc, bool aligned = false);
  // The current thread's part of what wgmma reads of shared memory: by the asynchronous proxy, which sees only what the
  // threads that wrote it have fenced. Whether they did so before the barrier is not checked.
  static void read_by_proxy(const void* address, size_t bytes, Pc pc);
  // The current thread is about to read memory that must not change during a launch. what: the word for the report.
  static void read_only(const void* address, size_t bytes, const char* what, Pc pc);
  // An asynchronous copy was issued (its target holds nothing until it lands), or has landed.
  static void in_flight(void* target, size_t bytes, Pc pc);
  static void landed(void* target, size_t bytes, Pc pc);
};

}  // namespace duet::simt::host
