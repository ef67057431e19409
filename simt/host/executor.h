// SPDX-License-Identifier: Apache-2.0
// Runs CUDA kernels on the host, thread by thread: the calls that kernel code compiled for the host makes into the runtime.
// Blocks run one after another on one OS thread, so that every verdict can be repeated.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <source_location>
#include <string>

#include <cuda_runtime.h>  // dim3, uint3: headers only, no CUDA library is linked

#include "core/error.h"
#include "core/grid.h"

namespace duet::simt::host {

// A kernel broke a rule: what, where, and the other party. The launch is abandoned, the next one works.
struct Report : Error {
  using Error::Error;
};

using Where = std::source_location;

struct Coordinates {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern constinit Coordinates here;  // threadIdx and the like
inline unsigned lane() {
  return (here.thread.x + here.block_size.x * (here.thread.y + here.block_size.y * here.thread.z)) % 32;
}

// Runs call(arguments) for every thread. `kernel`: for its name in reports.
void run(const void* kernel, void (*call)(const void*), const void* arguments, const Grid& grid);

// --- called from inside a kernel -----------------------------------------------------------------------------------

[[noreturn]] void stop(const std::string& report);
[[noreturn]] void unsupported(const char* feature);
void block_barrier(bool vote, int* votes, Where at);  // votes: of all threads, null where nobody counts
void named_barrier(int id, int threads, bool wait, Where at);
void pause(Where at);  // inside a loop that waits for another thread

// Lanes of a warp that do something together: each leaves two pointers into its own stack, and the last to arrive runs
// `finish` for all of them.
enum class WarpWork : uint8_t { barrier, shuffle, vote, match, reduce, mma, ldmatrix };
struct Lanes {
  uint32_t mask = 0, arrived = 0;
  WarpWork work;
  const void* in[32];
  void* out[32];
  Where at;
};
void together(uint32_t mask, WarpWork work, const void* in, void* out, void (*finish)(const Lanes&), Where at);
[[noreturn]] void absent_lane(int lane);  // a shuffle reads a lane that takes no part

void* static_shared(const void* key, const char* name, size_t bytes, size_t element);
void* dynamic_shared(size_t element);
void thread_fence(Where at);

// Accesses that the instrumentation does not see. pc: __builtin_return_address(0) of what the kernel called.
void read_matrix_row(const void* row, const void* pc);  // 16 bytes, for ldmatrix
void atomic_access(void* address, size_t bytes, const void* pc, Where at);
// 16-byte (or 4, 8) asynchronous copy of which the first `exist` bytes are read. It lands as late as it may.
void copy_async(void* to, const void* from, int bytes, int exist, const void* pc);
void commit_copies();
void wait_copies(int groups_left, Where at);

// --- asked by checker, hooks and profile ---------------------------------------------------------------------------

extern constinit uint32_t current_thread;  // linear, in its block
extern constinit uintptr_t stacks_begin, stacks_bytes;
inline bool on_fiber_stack(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - stacks_begin < stacks_bytes;
}
void check_stack(const void* address, const void* pc);  // a function was entered with its frame here
std::string thread_text(uint32_t thread);
extern constinit bool running;        // kernel code runs, and is checked
extern constinit int64_t steps_left;  // basic blocks until the thread is taken for endless
[[noreturn]] void out_of_steps(const void* pc);

// --- mutants: the same kernel without one of its synchronisations ----------------------------------------------------

struct SyncPoint {
  std::string kernel, what,
      at;  // "rows_kernel (kernels/reduction/sum_tuned.cu)", "__syncthreads", "kernels/vector.cuh:140"
  auto operator<=>(const SyncPoint&) const = default;
};
struct Mutation {
  std::set<SyncPoint> seen;          // what the kernels came by
  std::optional<SyncPoint> without;  // what they are to do without
};
extern constinit Mutation* mutation;  // null: none

// --- set by the context --------------------------------------------------------------------------------------------

enum class Order : uint8_t { forward, reverse, shuffled };
struct Settings {
  Order order = Order::forward;  // of threads, and of blocks
  uint64_t seed = 1;
  int64_t blocks = 0;  // run only the first, the last and this many of a launch in between; 0: all
};
extern Settings settings;
class Profile;
extern constinit Profile* profile;  // null: nothing is counted

}  // namespace duet::simt::host
