// SPDX-License-Identifier: Apache-2.0
// Runs CUDA kernels on the host, thread by thread: the functions that kernel code compiled for the host calls (through
// words.h, mma.h and launch.h), and what the checker, the hooks and the profile ask for. Blocks run one after another
// on one OS thread, so that every report can be repeated.
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

// A kernel broke a rule: which one, where, and the other thread or block concerned. The launch is abandoned; later
// launches work.
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
void run(const void* kernel, void (*call)(const void*), const void* arguments, size_t argument_bytes, const Grid& grid);

// --- called from inside a kernel -----------------------------------------------------------------------------------

[[noreturn]] void stop(const std::string& report);
[[noreturn]] void unsupported(const char* feature);
void block_barrier(bool vote, int* votes, Where at);  // votes: number of true ones in the block; null where not needed
void named_barrier(int id, int threads, bool wait, Where at);
void pause(Where at);  // inside a loop that waits for another thread

// An instruction that the lanes of a mask execute together. Each lane leaves two pointers into its own stack, and the
// last lane to arrive runs `finish` for all of them.
enum class WarpInstruction : uint8_t { barrier, shuffle, vote, match, reduce, mma, ldmatrix };
struct Lanes {
  uint32_t mask = 0, arrived = 0;
  WarpInstruction instruction;
  const void* in[32];
  void* out[32];
  Where at;
};
void warp_collective(uint32_t mask, WarpInstruction instruction, const void* in, void* out,
                     void (*finish)(const Lanes&), Where at);
[[noreturn]] void absent_lane(int lane);  // a shuffle reads a lane that is not in its mask

void* static_shared(const void* key, const char* name, size_t bytes, size_t element);
void* dynamic_shared(size_t element);
void thread_fence(Where at);

// Accesses that the instrumentation does not see. pc: __builtin_return_address(0) of what the kernel called.
void read_matrix_row(const void* row, const void* pc);       // 16 bytes, for ldmatrix
void read_operand_piece(const void* piece, const void* pc);  // 16 bytes, for wgmma
void proxy_fence(Where at);
void atomic_access(void* address, size_t bytes, const void* pc, Where at);
// Of __ldg, whose cache may keep what memory held before: stops where this launch has written any of these bytes.
void read_only_access(const void* address, size_t bytes);
// Asynchronous copy of 4, 8 or 16 bytes, of which the first `exist` are read. The target is written at the latest
// moment that the waits allow.
void copy_async(void* to, const void* from, int bytes, int exist, const void* pc);
void commit_copies();
void wait_copies(int groups_left, Where at);

// --- for the checker, the hooks and the profile --------------------------------------------------------------------

extern constinit uint32_t current_thread;  // linear, in its block
extern constinit uintptr_t stacks_begin, stacks_bytes;
inline bool on_fiber_stack(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - stacks_begin < stacks_bytes;
}
extern constinit uintptr_t arguments_begin, arguments_bytes;  // of the launch
inline bool is_argument(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - arguments_begin < arguments_bytes;
}
void check_stack(const void* address, const void* pc);  // a function was entered with its frame here
std::string thread_text(uint32_t thread);
extern constinit bool running;        // kernel code runs, and is checked
extern constinit int64_t steps_left;  // basic blocks until the thread is reported as endless
[[noreturn]] void out_of_steps(const void* pc);

// --- mutants: the same kernel without one of its synchronisations ---------------------------------------------------

struct SyncPoint {
  std::string kernel;  // "rows_kernel (kernels/reduction/sum_tuned.cu)"
  std::string what;    // "__syncthreads"
  std::string at;      // "kernels/vector.cuh:140"
  auto operator<=>(const SyncPoint&) const = default;
};
struct Mutation {
  std::set<SyncPoint> seen;          // those that the kernels executed
  std::optional<SyncPoint> omitted;  // the one that is skipped
};
extern constinit Mutation* mutation;  // null: none

// --- set by the context --------------------------------------------------------------------------------------------

enum class Order : uint8_t { forward, reverse, shuffled };
struct Settings {
  Order order = Order::forward;  // of threads, and of blocks
  uint64_t seed = 1;
  int64_t blocks = 0;  // run only those at the corners of the grid and this many of a launch in between; 0: all
  int capability = 90;
};
extern Settings settings;
class Profile;
extern constinit Profile* profile;  // null: nothing is counted

}  // namespace duet::simt::host
