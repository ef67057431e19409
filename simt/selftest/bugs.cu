// SPDX-License-Identifier: Apache-2.0
// Planted bugs, which test the checker: each kernel has one mistake of a class that users make, and none with kFixed.
// kBugs at the end lists them, each with part of the report that is expected.
#include "simt/selftest/bugs.h"

#include "simt/constant.h"
#include "simt/cooperative.h"
#include "simt/host/memory.h"
#include "simt/launch.h"
#include "simt/mma.h"
#include "simt/texture.h"
#include "simt/wgmma.h"

namespace duet::DUET_DEVICE {
namespace {
using selftest::Arrays;
using selftest::kLength;

__device__ int thread() { return static_cast<int>(threadIdx.x); }

// --- races in shared memory ----------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void reads_right_neighbour(const float* x, float* y) {
  DUET_SHARED(float, s, [kLength]);
  const int t = thread();
  s[t] = x[t];
  if (kFixed) __syncthreads();
  y[t] = s[(t + 1) % kLength];
}
template <bool kFixed>
__global__ void reads_left_neighbour(const float* x, float* y) {
  DUET_SHARED(float, s, [kLength]);
  const int t = thread();
  s[t] = x[t];
  if (kFixed) __syncthreads();
  y[t] = s[(t + kLength - 1) % kLength];
}
template <bool kFixed>
__global__ void refills_too_early(const float* x, float* y) {  // a tiled loop without its second barrier
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  float sum = 0;
  for (int i = 0; i < kLength; i += 64) {
    s[t] = x[i + t];
    __syncthreads();
    for (int j = 0; j < 64; ++j) sum += s[j] * static_cast<float>(j + t);
    if (kFixed) __syncthreads();
  }
  y[t] = sum;
}
template <bool kFixed>
__global__ void barrier_too_early(const float* x, float* y) {
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  if (!kFixed) __syncthreads();
  s[t] = x[t];
  if (kFixed) __syncthreads();
  y[t] = s[63 - t];
}
template <bool kFixed>
__global__ void exchanges_in_a_warp(const float* x, float* y) {
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  s[t] = x[t];
  if (kFixed) __syncwarp();
  y[t] = s[t ^ 5];
}
template <bool kFixed>
__global__ void syncs_half_the_warp(const float* x, float* y) {
  DUET_SHARED(float, s, [32]);
  const int t = thread();
  s[t] = x[t];
  if (kFixed)
    __syncwarp();
  else if (t < 16)
    __syncwarp(0x0000ffffu);
  else
    __syncwarp(0xffff0000u);
  y[t] = s[31 - t];
}
template <bool kFixed>
__global__ void warp_synchronous_sum(const float* x, float* y) {  // as before Volta
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  s[t] = x[t];
  s[t + 32] = x[t + 32];
  if (kFixed) __syncwarp();
  for (int half = 32; half > 0; half /= 2) {
    const float v = s[t] + (t < half ? s[t + half] : 0);
    if (kFixed) __syncwarp();
    s[t] = v;
    if (kFixed) __syncwarp();
  }
  if (t == 0) *y = s[0];
}
template <bool kFixed>
__global__ void volatile_warp_sum(const float* x, float* y) {  // as before Volta, too
  DUET_SHARED(float, s, [32]);
  volatile float* const v = s;
  const int t = thread();
  v[t] = x[t];
  __syncwarp();
  for (int half = 16; half > 0; half /= 2) {
    const float sum = v[t] + (t < half ? v[t + half] : 0);
    if (kFixed) __syncwarp();
    v[t] = sum;
    if (kFixed) __syncwarp();
  }
  if (t == 0) *y = v[0];
}
template <bool kFixed>
__global__ void last_reader_unordered(const float* x, float* y) {  // lanes 0 to 2 read before a __syncwarp, 3 after it
  DUET_SHARED(float, s, [1]);
  const int t = thread();
  if (t == 0) s[0] = x[0];
  __syncwarp();
  float v = 0;
  if (t < 3) v = s[0];
  __syncwarp();
  if (t == 3) v = s[0];
  if (kFixed) __syncwarp();
  if (t == 4) s[0] = 1;
  y[t] = v;
}
template <bool kFixed>
__global__ void tree_without_barrier(const float* x, float* y) {
  DUET_SHARED(float, s, [kLength]);
  const int t = thread();
  s[t] = x[t];
  for (int half = kLength / 2; half > 0; half /= 2) {
    if (kFixed || half == kLength / 2) __syncthreads();
    if (t < half) s[t] += s[t + half];
  }
  if (t == 0) *y = s[0];
}
template <bool kFixed>
__global__ void fills_the_stage_in_use(const float* x, float* y) {
  DUET_SHARED(float, s, [2][64]);
  const int t = thread();
  float sum = 0;
  s[0][t] = x[t];
  __syncthreads();
  for (int step = 0; step < 4; ++step) {
    const int now = step % 2;
    if (step < 3) s[kFixed ? 1 - now : now][t] = x[step * 64 + 64 + t];
    for (int j = 0; j < 64; ++j) sum += s[now][(j + t) % 64] * static_cast<float>(j);
    __syncthreads();
    if (!kFixed && step < 3) s[1 - now][t] = s[now][t];
    if (!kFixed) __syncthreads();
  }
  y[t] = sum;
}
template <bool kFixed>
__global__ void plain_histogram(const float* x, float* y) {
  DUET_SHARED(float, bins, [8]);
  const int t = thread();
  if (t < 8) bins[t] = 0;
  __syncthreads();
  if (kFixed)
    atomicAdd(&bins[t % 8], x[t]);
  else
    bins[t % 8] += x[t];
  __syncthreads();
  if (t < 8) y[t] = bins[t];
}
template <bool kFixed>
__global__ void all_threads_set_the_flag(const float* x,
                                         float* y) {  // different values: which one remains is undefined
  DUET_SHARED(float, winner, [1]);
  const int t = thread();
  if (!kFixed || t == 0) winner[0] = x[t];
  __syncthreads();
  y[t] = winner[0];
}
template <bool kFixed>
__global__ void resets_while_others_read(const float* x, float* y) {
  DUET_SHARED(float, total, [1]);
  const int t = thread();
  if (t == 0) total[0] = x[0];
  __syncthreads();
  y[t] = total[0];
  if (kFixed) __syncthreads();
  if (t == 0) total[0] = 0;
}

// --- races in global memory ----------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void plain_sum(const float* x, float* y) {
  if (kFixed)
    atomicAdd(y, x[thread()]);
  else
    *y += x[thread()];
}
template <bool kFixed>
__global__ void plain_sum_of_blocks(const float* x, float* y) {
  if (thread() != 0) return;
  if (kFixed)
    atomicAdd(y, x[blockIdx.x]);
  else
    *y += x[blockIdx.x];
}
template <bool kFixed>
__global__ void blocks_overlap(const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.x) * (kFixed ? 64 : 63) + thread();
  y[i] = x[i];
}
template <bool kFixed>
__global__ void last_block_without_fence(const float* x, float* z, unsigned* counter, float* y) {
  DUET_SHARED(bool, last, [1]);
  if (thread() == 0) {
    z[blockIdx.x] = x[blockIdx.x];
    if (kFixed) __threadfence();
    last[0] = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last[0]) return;
  if (kFixed) __threadfence();
  if (thread() == 0) {
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += z[i];
    *y = sum;
  }
}
template <bool kFixed>
__global__ void reverses_in_place(float* y) {
  const int t = thread();
  const float mine = y[kLength - 1 - t];
  if (kFixed) __syncthreads();
  y[t] = mine + 1;
}
template <bool kFixed>
__global__ void stencil_in_place(float* y, float* z) {  // a block reads what the next block writes
  const int i = static_cast<int>(blockIdx.x) * 64 + thread();
  const float right = i + 1 < kLength ? y[i + 1] : 0;
  (kFixed ? z : y)[i] = right + 1;
}
template <bool kFixed>
__global__ void resets_an_atomic_counter(unsigned* counter, float* y) {
  const unsigned n = atomicAdd(counter, 1u);
  if (!kFixed && thread() == 40) *counter = 0;
  y[thread()] = n < 64 ? 1.0f : 0.0f;
}

// --- blocks that wait for each other --------------------------------------------------------------------------------

template <bool kFixed>
__global__ void fence_before_the_write(const float* x, float* z, unsigned* counter, float* y) {
  DUET_SHARED(bool, last, [1]);
  if (thread() == 0) {
    if (!kFixed) __threadfence();
    z[blockIdx.x] = x[blockIdx.x];
    if (kFixed) __threadfence();
    last[0] = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last[0]) return;
  __threadfence();
  if (thread() == 0) {
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += z[i];
    *y = sum;
  }
}
template <bool kFixed>
__global__ void reader_without_fence(const float* x, float* z, unsigned* counter, float* y) {
  DUET_SHARED(bool, last, [1]);
  if (thread() == 0) {
    z[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    last[0] = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last[0]) return;
  if (kFixed) __threadfence();
  if (thread() == 0) {
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) sum += z[i];
    *y = sum;
  }
}

// Each block adds its part of x to z after the block before it, as those of flash attention's backward pass add up dq.
// A block takes its turn from counter[0]; counter[1 + t] is the flag of the block whose turn was t.
enum class Mistake {
  none,
  no_fence_before_the_flag,
  flag_before_the_data,
  no_barrier_before_the_flag,
  plain_flag,
  waits_for_another_block,
  does_not_wait,
  no_fence_after_the_flag,
  no_barrier_after_the_flag,
  looks_once,
  plain_turn,
  takes_two_turns,
  every_thread_takes_a_turn,
  index_as_turn,
};
template <Mistake kMistake, bool kVolatileFlags>
__device__ void add_in_turn(const float* x, float* z, unsigned* counter) {
  using enum Mistake;
  DUET_SHARED(int, turn, [1]);
  const int t = thread();
  if (t == 0 || kMistake == every_thread_takes_a_turn) {
    if (kMistake == takes_two_turns) atomicAdd(counter, 1u);
    const auto mine = static_cast<int>(kMistake == plain_turn ? (*counter)++ : atomicAdd(counter, 1u));
    if (t == 0) turn[0] = kMistake == index_as_turn ? static_cast<int>(gridDim.x - 1 - blockIdx.x) : mine;
  }
  __syncthreads();
  const int block = turn[0];
  unsigned* const flags = counter + 1;
  const auto is_set = [](unsigned* flag) {
    return (kVolatileFlags ? *static_cast<volatile unsigned*>(flag) : atomicAdd(flag, 0u)) != 0;
  };
  const auto set = [&](unsigned* flag) {
    if (kMistake != no_fence_before_the_flag) __threadfence();
    if (kVolatileFlags)
      *static_cast<volatile unsigned*>(flag) = 1;
    else if (kMistake == plain_flag)
      *flag = 1;
    else
      atomicExch(flag, 1u);
  };

  if (t == 0 && block > 0 && kMistake != does_not_wait) {
    unsigned* const flag = flags + (kMistake == waits_for_another_block ? 0 : block - 1);
    while (!is_set(flag) && kMistake != looks_once) spin_pause();
    if (kMistake != no_fence_after_the_flag) __threadfence();
  }
  if (kMistake != no_barrier_after_the_flag) __syncthreads();
  if (t == 0 && kMistake == flag_before_the_data) set(flags + block);
  z[t] = (block == 0 ? 0 : __ldcg(z + t)) + x[block * 32 + t];
  if (kMistake != no_barrier_before_the_flag) __syncthreads();
  if (t == 0 && kMistake != flag_before_the_data) set(flags + block);
}
#define IN_TURN(name, mistake, volatile_flags)                                             \
  template <bool kFixed>                                                                   \
  __global__ void name(const float* x, float* z, unsigned* counter) {                      \
    add_in_turn<kFixed ? Mistake::none : Mistake::mistake, volatile_flags>(x, z, counter); \
  }
IN_TURN(no_fence_before_the_flag, no_fence_before_the_flag, false)
IN_TURN(flag_before_the_data, flag_before_the_data, false)
IN_TURN(no_barrier_before_the_flag, no_barrier_before_the_flag, false)
IN_TURN(plain_flag, plain_flag, false)
IN_TURN(waits_for_another_block, waits_for_another_block, false)
IN_TURN(does_not_wait, does_not_wait, false)
IN_TURN(no_fence_after_the_flag, no_fence_after_the_flag, false)
IN_TURN(no_barrier_after_the_flag, no_barrier_after_the_flag, false)
IN_TURN(looks_once, looks_once, false)
IN_TURN(plain_turn, plain_turn, false)
IN_TURN(takes_two_turns, takes_two_turns, false)
IN_TURN(every_thread_takes_a_turn, every_thread_takes_a_turn, false)
IN_TURN(index_as_turn, index_as_turn, false)
IN_TURN(no_fence_before_a_volatile_flag, no_fence_before_the_flag, true)
IN_TURN(no_fence_after_a_volatile_flag, no_fence_after_the_flag, true)
#undef IN_TURN

// A barrier of the grid.
__device__ unsigned of_next_block() { return (blockIdx.x + 1) % gridDim.x * blockDim.x + threadIdx.x; }

template <bool kFixed>
__global__ void no_grid_barrier(const float* x, float* y, float* z, unsigned* counter) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];
  if (kFixed)
    grid_barrier(counter, 0);
  else
    __syncthreads();
  z[i] = y[of_next_block()];
}
template <bool kFixed>
__global__ void no_second_grid_barrier(const float* x, float* y, float* z, unsigned* counter) {
  DUET_SHARED(float, s, [64]);
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  s[thread()] = y[i] = x[i];
  grid_barrier(counter, 0);
  const float other = y[of_next_block()] + s[63 - thread()];
  if (kFixed) grid_barrier(counter, 1);
  y[i] = other;
  if (kFixed) grid_barrier(counter, 2);
  z[i] = y[of_next_block()];
}
template <bool kFixed>
__global__ void grid_barrier_of_some_blocks(const float* x, float* y, unsigned* counter) {
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[thread()];
  if (kFixed || blockIdx.x != 1) grid_barrier(counter, 0);
}
template <bool kFixed>
__global__ void two_grid_barriers_for_one(const float* x, float* y, unsigned* counter) {
  if (kFixed || blockIdx.x != 1)
    grid_barrier(counter, 0);
  else
    grid_barrier(counter, 0);
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[thread()];
}
template <bool kFixed>
__global__ void grid_barrier_of_some_threads(const float* x, float* y, unsigned* counter) {
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[thread()];
  if (kFixed || thread() != 40) grid_barrier(counter, 0);
}
template <bool kFixed>
__global__ void grid_barrier_of_the_same_number(const float* x, float* y, float* z, unsigned* counter) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
  grid_barrier(counter, 0);
  z[i] = y[of_next_block()];
  grid_barrier(counter, kFixed ? 1 : 0);
  y[i] = z[of_next_block()];
}
template <bool kFixed>
__global__ void read_only_load_of_what_was_written(const float* x, float* y, float* z, unsigned* counter) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = __ldg(x + i);
  grid_barrier(counter, 0);
  z[i] = kFixed ? __ldcg(y + of_next_block()) : __ldg(y + of_next_block());
}
template <bool kFixed>
__global__ void grid_barrier_counts_apart(const float* x, float* y, float* z, unsigned* counter) {
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[thread()];
  grid_barrier(counter + (kFixed ? 0 : blockIdx.x), 0);
  z[blockIdx.x * blockDim.x + threadIdx.x] = x[thread()];
}
template <bool kFixed>
__global__ void grid_counter_is_not_cleared(float* y, unsigned* counter) {
  if (!kFixed && blockIdx.x == 0 && thread() == 0) atomicAdd(counter, 3u);
  grid_barrier(counter, 0);
  y[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
template <bool kFixed>
__global__ void clears_the_grid_counter(const float* x, float* y, unsigned* counter) {
  y[blockIdx.x * blockDim.x + thread()] = x[thread()];
  grid_barrier(counter, 0);
  if (!kFixed && blockIdx.x == 0 && thread() == 0) *counter = 0;
}
template <bool kFixed>
__global__ void takes_from_the_grid_counter(const float* x, float* y, unsigned* counter) {
  y[blockIdx.x * blockDim.x + thread()] = x[thread()];
  grid_barrier(counter, 0);
  if (!kFixed && thread() == 0) atomicSub(counter, 1u);
}
template <bool kFixed>
__global__ void two_kinds_of_barrier_in_a_line(const float* x, float* y, unsigned* counter) {
  y[blockIdx.x * blockDim.x + thread()] = x[thread()];
  thread() < 32 && !kFixed ? __syncthreads() : grid_barrier(counter, 0);
}
template <bool kFixed>
__global__ void read_only_load_of_its_own_result(const float* x, float* y, float* z) {
  const int t = thread();
  y[t] = x[t];
  z[t] = kFixed ? y[t] : __ldg(y + t);
}

// --- bounds --------------------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void reads_one_too_many(const float* x, float* y) {
  const int t = thread();
  y[t] = x[kFixed ? t : t + 1];
}
template <bool kFixed>
__global__ void guard_lets_one_through(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * 256 + thread();
  if (kFixed ? i < n : i <= n) y[i] = i < n ? x[i] : 0;
}
template <bool kFixed>
__global__ void no_guard(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * 96 + thread();
  if (!kFixed || i < n) y[i] = x[i];
}
template <bool kFixed>
__global__ void past_a_shared_row(const float* x, float* y) {
  DUET_SHARED(float, s, [16][16]);
  const int t = thread();
  s[t / 16][t % 16] = x[t];
  __syncthreads();
  y[t] = kFixed ? s[t / 16][t % 16] : s[t / 16][t % 16 + 1];
}
template <bool kFixed>
__global__ void past_a_shared_array(const float* x, float* y) {
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  float* p = s;
  p[kFixed ? t : t + 1] = x[t];
  __syncthreads();
  y[t] = p[63 - t];
}
template <bool kFixed>
__global__ void past_dynamic_shared(const float* x, float* y) {
  DUET_DYN_SHARED(float, s);
  const int t = thread();
  s[kFixed ? t : t + 1] = x[t];
  __syncthreads();
  y[t] = s[kFixed ? 63 - t : 64 - t];
}
template <bool kFixed>
__global__ void before_the_beginning(const float* x, float* y) {
  const int t = thread();
  y[t] = x[kFixed && t == 0 ? 0 : t - 1];
}
template <bool kFixed>
__global__ void wrong_pitch(const float* x, float* y) {  // 16 rows of 16
  const int t = thread();
  y[t] = x[t / 16 * (kFixed ? 16 : 17) + t % 16];
}
template <bool kFixed>
__global__ void vector_tail(const float* x, float* y, int n) {  // a float4 that begins inside and ends outside
  const int t = thread(), i = 4 * t + 4;
  if (kFixed ? i + 4 <= n : i <= n) *reinterpret_cast<float4*>(y + i) = *reinterpret_cast<const float4*>(x + i);
}
template <bool kFixed>
__global__ void batch_offset_twice(const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.x) * 64 + thread();
  y[i] = x[kFixed ? i : i + static_cast<int>(blockIdx.x) * 64];
}

// --- memory that was never written ----------------------------------------------------------------------------------

template <bool kFixed>
__global__ void sum_not_cleared(const float* x, float* y) {
  DUET_SHARED(float, sums, [32]);
  const int t = thread();
  if (kFixed && t < 32) sums[t] = 0;
  __syncthreads();
  atomicAdd(&sums[t % 32], x[t]);
  __syncthreads();
  if (t < 32) y[t] = sums[t];
}
template <bool kFixed>
__global__ void stale_tail(const float* x, float* y) {  // with weight 0, so that the result is right
  DUET_SHARED(int, s, [64]);
  const int t = thread();
  if (kFixed || t < 50) s[t] = t < 50 ? static_cast<int>(x[t]) : 0;
  __syncthreads();
  int sum = 0;
  for (int j = 0; j < 64; ++j) sum += s[j] * (j < 50 ? 1 : 0);
  y[t] = static_cast<float>(sum);
}
template <bool kFixed>
__global__ void padding_read(const float* x, float* y) {
  DUET_SHARED(float, s, [16][17]);
  const int t = thread();
  s[t / 16][t % 16] = x[t];
  __syncthreads();
  y[t] = s[t / 16][kFixed ? 15 - t % 16 : 16 - t % 16];
}
template <bool kFixed>
__global__ void workspace_not_written(float* z, float* y) {
  const int t = thread();
  if (kFixed || t < 60) z[t] = 1;
  __syncthreads();
  y[t] = z[63 - t];
}
template <bool kFixed>
__global__ void output_read_before_written(float* z) {  // gradients overwrite: they do not add
  const int t = thread();
  if (kFixed)
    z[t] = 1;
  else
    z[t] += 1;
}

// --- alignment -----------------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void unaligned_float4(const float* x, float* y) {
  const int t = thread();
  const float4 v = *reinterpret_cast<const float4*>(x + (kFixed ? 4 * t : 4 * t + 1));
  y[t] = v.x + v.w;
}
template <bool kFixed>
__global__ void unaligned_float2(const float* x, float* y) {
  DUET_SHARED(float, s, [66]);
  const int t = thread();
  s[t] = x[t];
  s[t + 32] = x[t + 32];
  if (t < 2) s[t + 64] = 0;
  __syncthreads();
  const float2 v = *reinterpret_cast<const float2*>(s + (kFixed ? 2 * t : 2 * t + 1));
  y[t] = v.x + v.y;
}
template <bool kFixed>
__global__ void unaligned_copy(const float* x, float* y) {
  DUET_SHARED(float, s, [132]);
  const int t = thread();
  cp_async16(&s[kFixed ? 4 * t : 4 * t + 2], x + 4 * t);
  cp_async_commit();
  cp_async_wait<0>();
  y[t] = s[4 * t + 2];
}

// --- barriers -------------------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void barrier_in_a_branch(const float* x, float* y) {
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  s[t] = x[t];
  if (kFixed || t < 32) __syncthreads();
  y[t] = kFixed ? s[63 - t] : s[t];
}
template <bool kFixed>
__global__ void returns_before_the_barrier(const float* x, float* y) {
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  if (!kFixed && t >= 50) return;
  s[t] = x[t];
  __syncthreads();
  if (t < 50) y[t] = s[(t + 1) % 50];
}
template <bool kFixed>
__global__ void two_barriers_for_one(const float* x, float* y) {
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  s[t] = x[t];
  if (kFixed) {
    __syncthreads();
  } else if (t % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  y[t] = s[63 - t];
}
template <bool kFixed>
__global__ void barrier_per_element(const float* x, float* y) {  // threads execute the loop different numbers of times
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  float sum = 0;
  for (int i = t; i < (kFixed ? 128 : 100); i += 64) {
    s[t] = x[i];
    __syncthreads();
    sum += s[63 - t];
    __syncthreads();
  }
  y[t] = sum;
}

// --- warps ----------------------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void full_mask_in_half_a_warp(const float* x, float* y) {
  const int t = thread();
  float v = x[t];
  if (t < 16) v += __shfl_xor_sync(kFixed ? 0x0000ffffu : 0xffffffffu, v, 1);
  y[t] = v;
}
template <bool kFixed>
__global__ void shuffle_from_outside(const float* x, float* y) {
  const int t = thread();
  float v = x[t];
  if (t < 16) v = __shfl_sync(0x0000ffffu, v, kFixed ? 3 : 20);
  y[t] = v;
}
template <bool kFixed>
__global__ void shuffle_in_a_ragged_loop(const float* x, float* y) {
  const int t = thread();
  float sum = 0;
  for (int i = t; i < (kFixed ? 64 : 50); i += 32) sum += __shfl_xor_sync(0xffffffffu, x[i], 1);
  y[t] = sum;
}
template <bool kFixed>
__global__ void mask_without_the_caller(const float* x, float* y) {
  const int t = thread();
  const unsigned mask = t < 16 ? 0x0000ffffu : 0xffff0000u;
  y[t] = __shfl_xor_sync(kFixed ? mask : ~mask, x[t], 1);
}
template <bool kFixed>
__global__ void two_shuffles_for_one(const float* x, float* y) {
  const int t = thread();
  float v;
  if (kFixed)
    v = __shfl_xor_sync(0xffffffffu, x[t], 1);
  else if (t % 2 == 0)
    v = __shfl_xor_sync(0xffffffffu, x[t], 1);
  else
    v = __shfl_xor_sync(0xffffffffu, x[t] + 1, 1);
  y[t] = v;
}
template <bool kFixed>
__global__ void mma_by_half_a_warp(float* y) {
  const int t = thread();
  float d[4] = {1, 2, 3, 4};
  const uint32_t a[4] = {}, b[2] = {};
  if (kFixed || t < 16) mma_m16n8k16<__nv_bfloat16>(d, a, b);
  y[t] = d[0];
}
// An element for each thread of a warpgroup of the product of 64 lines of 64 elements with the next 64.
__device__ void multiply_lines(const __nv_bfloat16* lines, float* y) {
  float d[32] = {};
  wgmma_m64k16<__nv_bfloat16, 64, false, false>(d, SwizzledLines{lines}, SwizzledLines{lines + 64 * 64});
  wgmma_wait_for(d);
  y[thread()] = d[0];
}
template <bool kFixed>
__global__ void wgmma_without_a_barrier(const float* x, float* y) {
  DUET_SHARED(__nv_bfloat16, s, [128 * 64 + kSwizzleBytes / 2]);
  const int t = thread();
  __nv_bfloat16* lines = swizzled_start(s);
  for (int i = 0; i < 64; ++i) lines[t * 64 + i] = __nv_bfloat16(x[t % 32]);
  fence_async_proxy();
  if (kFixed) __syncthreads();
  multiply_lines(lines, y);
}
template <bool kFixed>
__global__ void wgmma_without_a_proxy_fence(const float* x, float* y) {
  DUET_SHARED(__nv_bfloat16, s, [128 * 64 + kSwizzleBytes / 2]);
  const int t = thread();
  __nv_bfloat16* lines = swizzled_start(s);
  for (int i = 0; i < 64; ++i) lines[t * 64 + i] = __nv_bfloat16(x[t % 32]);
  fence_async_proxy();
  lines[t * 64] = __nv_bfloat16(x[(t + 1) % 32]);
  if (kFixed) fence_async_proxy();
  __syncthreads();
  multiply_lines(lines, y);
}
template <bool kFixed>
__global__ void fences_the_proxy_after_its_arrival(const float* x, float* y) {
  DUET_SHARED(__nv_bfloat16, s, [128 * 64 + kSwizzleBytes / 2]);
  const int t = thread();
  __nv_bfloat16* lines = swizzled_start(s);
  if (t >= 128) {  // a warp that fills both operands
    for (int i = t - 128; i < 128 * 64; i += 32) lines[i] = __nv_bfloat16(x[i % 32]);
    if (kFixed) fence_async_proxy();
    bar_arrive(1, 160);
    if (!kFixed) fence_async_proxy();
    return;
  }
  bar_sync(1, 160);
  multiply_lines(lines, y);
}
template <bool kFixed>
__global__ void exits_before_the_vote(const float* x, float* y) {
  const int t = thread();
  if (!kFixed && t >= 30) return;
  const unsigned mask = __ballot_sync(0xffffffffu, x[t] > 3);
  y[t] = static_cast<float>(mask);
}

// --- asynchronous copies --------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void copy_not_waited_for(const float* x, float* y) {
  DUET_SHARED(float, s, [kLength]);
  const int t = thread();
  cp_async16(&s[4 * t], x + 4 * t);
  cp_async_commit();
  if (kFixed) cp_async_wait<0>();
  __syncthreads();
  y[t] = s[t] + s[kLength - 1 - t];
  cp_async_wait<0>();
}
template <bool kFixed>
__global__ void copy_without_barrier(const float* x, float* y) {  // a thread waits for its own copies only
  DUET_SHARED(float, s, [kLength]);
  const int t = thread();
  cp_async16(&s[4 * t], x + 4 * t);
  cp_async_commit();
  cp_async_wait<0>();
  if (kFixed) __syncthreads();
  y[t] = s[kLength - 1 - t];
}
template <bool kFixed>
__global__ void waits_for_too_few(const float* x, float* y) {
  DUET_SHARED(float, s, [kLength]);
  const int t = thread();
  cp_async16(&s[8 * t], x + 8 * t);
  cp_async_commit();
  cp_async16(&s[8 * t + 4], x + 8 * t + 4);
  cp_async_commit();
  cp_async_wait<kFixed ? 0 : 1>();
  __syncthreads();
  y[t] = s[8 * t] + s[8 * t + 7];
  cp_async_wait<0>();
}
template <bool kFixed>
__global__ void copy_left_behind(const float* x, float* y) {
  DUET_SHARED(float, s, [128]);
  const int t = thread();
  cp_async16(&s[4 * t], x + 4 * t);
  cp_async_commit();
  if (kFixed) cp_async_wait<0>();
  y[t] = x[t];
}
template <bool kFixed>
__global__ void copy_into_what_is_read(const float* x, float* y) {
  DUET_SHARED(float, s, [128]);
  const int t = thread();
  for (int i = 0; i < 4; ++i) s[4 * t + i] = x[i];
  __syncthreads();
  const float v = s[127 - t];
  if (kFixed) __syncthreads();
  cp_async16(&s[4 * t], x + 4 * t);
  cp_async_commit();
  cp_async_wait<0>();
  y[t] = v;
}

// --- named barriers -------------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void waits_for_too_many(const float* x, float* y) {
  DUET_SHARED(float, s, [64]);
  const int t = thread();
  s[t] = x[t];
  bar_sync(1, kFixed ? 64 : 96);
  y[t] = s[63 - t];
}
template <bool kFixed>
__global__ void arrives_elsewhere(const float* x, float* y) {  // producers: warp 0, consumers: warp 1
  DUET_SHARED(float, s, [32]);
  const int t = thread();
  if (t < 32) {
    s[t] = x[t];
    bar_arrive(kFixed ? 1 : 2, 64);
  } else {
    bar_sync(1, 64);
    y[t - 32] = s[63 - t];
  }
}
template <bool kFixed>
__global__ void producer_does_not_arrive(const float* x, float* y) {
  DUET_SHARED(float, s, [32]);
  const int t = thread();
  if (t < 32) {
    if (!kFixed) bar_arrive(1, 64);
    s[t] = x[t];
    if (kFixed) bar_arrive(1, 64);
  } else {
    bar_sync(1, 64);
    y[t - 32] = s[63 - t];
  }
}

// --- endless loops, stack, shared memory ----------------------------------------------------------------------------

template <bool kFixed>
__global__ void never_ends(float* y) {
  volatile int i = 1;
  while (i > 0 && !kFixed) i = i % 7 + 1;
  y[thread()] = static_cast<float>(i);
}
template <bool kFixed>
__global__ void waits_for_an_unset_flag(unsigned* counter, float* y) {
  const volatile unsigned* flag = counter;
  if (thread() == 0 && kFixed) atomicExch(counter, 1u);
  if (kFixed) __syncthreads();
  while (*flag == 0) spin_pause();
  y[thread()] = 1;
}
template <bool kFixed>
__device__ __noinline__ float deeper(const float* x, int depth) {
  volatile float local[16];
  local[depth & 15] = x[depth % 16];
  return depth == 0 ? local[0] : deeper<kFixed>(x, kFixed ? depth / 2 : depth + 1) + local[depth & 15];
}
template <bool kFixed>
__global__ void recurses(const float* x, float* y) {
  y[thread()] = deeper<kFixed>(x, 5);
}
template <bool kFixed>
__global__ void too_much_static_shared(const float* x, float* y) {
  DUET_SHARED(float, s, [kFixed ? 1024 : 12289]);
  s[thread()] = x[thread()];
  y[thread()] = s[thread()];
}

// --- addresses and numbers ------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void copies(const float* x, float* y) {
  y[thread()] = x[thread()];
}
template <bool kFixed>
__global__ void index_overflows(const float* x, float* y, int rows, int cols) {
  const int t = thread();
  const int64_t last = kFixed ? int64_t{rows} * cols : rows * cols;
  y[t] = last > t ? x[t] : 0;
}
template <bool kFixed>
__global__ void index_wraps(const float* x, float* y) {  // 3 as an unsigned, minus 4
  const unsigned t = threadIdx.x;
  if (kFixed && t < 4) return;
  y[t] = x[t - 4u];
}

template <bool kFixed>
__global__ void divides_by_nothing(const float* x, float* y, int columns) {
  const int t = thread();
  y[t] = x[t % (kFixed ? columns + 1 : columns)];
}
template <bool kFixed>
__global__ void shifts_too_far(const float* x, float* y) {
  const int t = thread();
  y[t] = (1u << (kFixed ? t % 32 : t)) != 0 ? x[t] : 0;
}
template <bool kFixed>
__global__ void static_beside_dynamic_shared(const float* x, float* y) {
  DUET_SHARED(float, s, [10 * 1024]);
  DUET_DYN_SHARED(float, more);
  s[thread()] = x[thread()];
  more[thread()] = s[thread()];
  y[thread()] = more[thread()];
}
template <bool kFixed>
__global__ void ldmatrix_of_global_memory(const float* x, float* y) {
  DUET_SHARED(float, s, [4 * 32]);
  const int t = thread();
  for (int i = 0; i < 4; ++i) s[4 * t + i] = x[4 * t + i];
  __syncwarp();
  uint32_t r[4];
  ldmatrix_x4(r, kFixed ? s + 4 * t : x + 4 * t);
  y[t] = static_cast<float>(r[0] & 1);
}
template <bool kFixed>
__global__ void copies_to_global_memory(const float* x, float* y, float* z) {
  DUET_SHARED(float, s, [4 * 32]);
  const int t = thread();
  cp_async16(kFixed ? s + 4 * t : z + 4 * t, x + 4 * t);
  cp_async_commit();
  cp_async_wait<0>();
  y[t] = kFixed ? s[4 * t] : z[4 * t];
}

// --- constant memory ------------------------------------------------------------------------------------------------

DUET_CONSTANT(float, bank, kLength);

__global__ void copies_bank(float* y) { y[thread()] = bank[thread()]; }
template <bool kFixed>
__global__ void past_the_bank(float* y) {
  y[thread()] = bank[thread() + (kFixed ? 0 : 1)];
}
template <bool kFixed>
__global__ void before_the_bank(float* y) {
  y[thread()] = bank[thread() - (kFixed ? 0 : 1)];
}
template <bool kFixed>
__global__ void writes_the_bank(float* y) {
  if (!kFixed) const_cast<float*>(static_cast<const float*>(bank))[thread()] = 1;
  y[thread()] = bank[thread()];
}
template <bool kFixed>
__global__ void copies_from_the_bank(const float* x, float* y) {
  DUET_SHARED(float, s, [128]);
  const int t = thread();
  cp_async16(s + 4 * t, (kFixed ? x : static_cast<const float*>(bank)) + 4 * t);
  cp_async_commit();
  cp_async_wait<0>();
  y[t] = s[4 * t];
}

// --- textures -------------------------------------------------------------------------------------------------------

template <bool kFixed>
__global__ void past_the_texture(Texture<float> x, float* y) {
  y[thread()] = x[thread() + (kFixed ? 0 : 1)];
}
template <bool kFixed>
__global__ void before_the_texture(Texture<float> x, float* y) {
  y[thread()] = x[thread() - (kFixed ? 0 : 1)];
}
template <bool kFixed>
__global__ void fetches_what_it_wrote(Texture<float> of_y, const float* x, float* y) {
  y[thread()] = x[thread()];
  y[thread()] = (kFixed ? y[thread()] : of_y[thread()]) + 1;
}
template <bool kFixed>
__global__ void fetches_what_others_write(Texture<float> of_y, float* y, float* z) {
  z[thread()] = of_y[thread()];
  if (kFixed) __syncthreads();
  y[(thread() + 1) % kLength] = 1;
}
__global__ void copies_texture(Texture<float> x, float* y) { y[thread()] = x[thread()]; }

// --- known misses: simt/selftest/known_misses.txt has the reasons ---------------------------------------------------

template <bool kFixed>
__global__ void __launch_bounds__(kFixed ? 64 : 32) more_threads_than_bounds(const float* x, float* y) {
  y[thread()] = x[thread()];
}
template <bool kFixed>
__global__ void sums_in_any_order(const float* x, float* y) {  // its answer depends on the order of the threads
  if (kFixed) {
    if (thread() == 0)
      for (int i = 0; i < kLength; ++i) *y += x[i] / 3;
  } else {
    atomicAdd(y, x[thread()] / 3);
  }
}

// --- the list -------------------------------------------------------------------------------------------------------

template <class... P, class... A>
void start(void (*kernel)(P...), Grid grid, A... arguments) {
  launch(kernel, grid, arguments...);
}
#define BUG(kernel, expected, grid, ...)               \
  {                                                    \
#kernel, expected, [](bool fixed, const Arrays& a) { \
     (void)a;                                            \
     fixed ? start(&kernel<true>, grid, __VA_ARGS__) : start(&kernel<false>, grid, __VA_ARGS__); \
   } \
  }
// As BUG, with the values of x in constant memory.
#define BANK_BUG(kernel, report, ...)                                                                         \
  {                                                                                                           \
#kernel, report, [](bool fixed, const Arrays& a) {                                                          \
      fill_constant(bank, a.x, kLength, nullptr);                                                                \
      fixed ? start(&kernel<true>, __VA_ARGS__) : start(&kernel<false>, __VA_ARGS__);                           \
    } \
  }
// As BUG, in a cooperative launch.
#define GRID_BUG(kernel, report, grid, ...)                                                 \
  {                                                                                         \
#kernel, report, [](bool fixed, const Arrays& a) {                                        \
      const host::Together together(2);                                                       \
      fixed ? start(&kernel<true>, grid, __VA_ARGS__) : start(&kernel<false>, grid, __VA_ARGS__); \
    } \
  }
constexpr Grid of(int64_t blocks, int64_t threads, int64_t shared = 0) {
  return {.blocks = blocks, .threads = threads, .shared_bytes = shared};
}
const selftest::Bug kBugs[] = {
    BUG(reads_right_neighbour, "read of 's'", of(1, 256), a.x, a.y),
    BUG(reads_left_neighbour, "read of 's'", of(1, 256), a.x, a.y),
    BUG(refills_too_early, "race on 's'", of(1, 64), a.x, a.y),
    BUG(barrier_too_early, "read of 's'", of(1, 64), a.x, a.y),
    BUG(exchanges_in_a_warp, "read of 's'", of(1, 64), a.x, a.y),
    BUG(syncs_half_the_warp, "read of 's'", of(1, 32), a.x, a.y),
    BUG(warp_synchronous_sum, "read of 's'", of(1, 32), a.x, a.y),
    BUG(volatile_warp_sum, "race on 's'", of(1, 32), a.x, a.y),
    BUG(last_reader_unordered, "write/read race on 's'", of(1, 32), a.x, a.y),
    BUG(tree_without_barrier, "race on 's'", of(1, 256), a.x, a.y),
    BUG(fills_the_stage_in_use, "race on 's'", of(1, 64), a.x, a.y),
    BUG(plain_histogram, "race on 'bins'", of(1, 64), a.x, a.y),
    BUG(all_threads_set_the_flag, "write/write race on 'winner'", of(1, 64), a.x, a.y),
    BUG(resets_while_others_read, "race on 'total'", of(1, 64), a.x, a.y),
    BUG(plain_sum, "race on 'y'", of(1, 64), a.x, a.y),
    BUG(plain_sum_of_blocks, "in the same launch", of(8, 32), a.x, a.y),
    BUG(blocks_overlap, "write/write race on 'y'", of(4, 64), a.x, a.y),
    BUG(last_block_without_fence, "race on 'z'", of(8, 32), a.x, a.z, a.counter, a.y),
    BUG(reverses_in_place, "race on 'y'", of(1, 256), a.y),
    BUG(stencil_in_place, "race on 'y'", of(4, 64), a.y, a.z),
    BUG(fence_before_the_write, "race on 'z'", of(8, 32), a.x, a.z, a.counter, a.y),
    BUG(reader_without_fence, "race on 'z'", of(8, 32), a.x, a.z, a.counter, a.y),
    BUG(no_fence_before_the_flag, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(flag_before_the_data, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(no_barrier_before_the_flag, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(plain_flag, "race on 'counter'", of(3, 32), a.x, a.z, a.counter),
    BUG(waits_for_another_block, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(does_not_wait, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(no_fence_after_the_flag, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(no_barrier_after_the_flag, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(plain_turn, "race on 'counter'", of(3, 32), a.x, a.z, a.counter),
    BUG(takes_two_turns, "deadlock", of(3, 32), a.x, a.z, a.counter),
    BUG(every_thread_takes_a_turn, "out of bounds", of(3, 32), a.x, a.z, a.counter),
    BUG(index_as_turn, "deadlock", of(3, 32), a.x, a.z, a.counter),
    BUG(no_fence_before_a_volatile_flag, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(no_fence_after_a_volatile_flag, "race on 'z'", of(3, 32), a.x, a.z, a.counter),
    BUG(resets_an_atomic_counter, "race on 'counter'", of(1, 64), a.counter, a.y),
    GRID_BUG(no_grid_barrier, "race on 'y'", of(3, 64), a.x, a.y, a.z, a.counter),
    GRID_BUG(no_second_grid_barrier, "race on 'y'", of(3, 64), a.x, a.y, a.z, a.counter),
    GRID_BUG(grid_barrier_of_some_blocks, "deadlock: block", of(3, 64), a.x, a.y, a.counter),
    GRID_BUG(two_grid_barriers_for_one, "divergence of the grid's barrier: block", of(3, 64), a.x, a.y, a.counter),
    GRID_BUG(grid_barrier_of_some_threads, "barrier divergence", of(3, 64), a.x, a.y, a.counter),
    GRID_BUG(grid_barrier_of_the_same_number, "number 0, and 1 were before", of(3, 64), a.x, a.y, a.z, a.counter),
    GRID_BUG(read_only_load_of_what_was_written, "which this launch has written", of(3, 64), a.x, a.y, a.z, a.counter),
    GRID_BUG(grid_barrier_counts_apart, "counts in another place", of(3, 64), a.x, a.y, a.z, a.counter),
    GRID_BUG(clears_the_grid_counter, "the counter of the barrier of the grid", of(3, 64), a.x, a.y, a.counter),
    GRID_BUG(takes_from_the_grid_counter, "the counter of the barrier of the grid", of(3, 64), a.x, a.y, a.counter),
    GRID_BUG(two_kinds_of_barrier_in_a_line, "barrier divergence", of(3, 64), a.x, a.y, a.counter),
    BUG(read_only_load_of_its_own_result, "which this launch has written", of(1, 64), a.x, a.y, a.z),
    GRID_BUG(grid_counter_is_not_cleared, "holds 3, with 3 blocks and number 0", of(3, 64), a.y, a.counter),
    {"grid_barrier_of_a_usual_launch", "not cooperative",
     [](bool fixed, const Arrays& a) {
       const host::Together together(fixed ? 2 : 0);
       start(&no_grid_barrier<true>, of(3, 64), a.x, a.y, a.z, a.counter);
     }},
    {"more_blocks_than_fit", "a cooperative grid of 3 blocks; the device holds 2",
     [](bool fixed, const Arrays& a) {
       const host::Together together(fixed ? 3 : 2);
       start(&grid_barrier_of_some_blocks<true>, of(3, 64, 200 << 10), a.x, a.y, a.counter);
     }},
    BUG(reads_one_too_many, "out of bounds: read of 4 bytes", of(1, 256), a.x, a.y),
    BUG(guard_lets_one_through, "out of bounds: write", of(2, 256), a.x, a.y, kLength),
    BUG(no_guard, "out of bounds", of(3, 96), a.x, a.y, kLength),
    BUG(past_a_shared_row, "past the end", of(1, 256), a.x, a.y),
    BUG(past_a_shared_array, "out of bounds: write of 4 bytes", of(1, 64), a.x, a.y),
    BUG(past_dynamic_shared, "'dynamic shared'[64]", of(1, 64, 256), a.x, a.y),
    BUG(before_the_beginning, "'x'[-1]", of(1, 64), a.x, a.y),
    BUG(wrong_pitch, "out of bounds: read", of(1, 256), a.x, a.y),
    BUG(vector_tail, "out of bounds", of(1, 64), a.x, a.y, kLength),
    BUG(batch_offset_twice, "out of bounds: read", of(4, 64), a.x, a.y),
    BUG(sum_not_cleared, "has not been written", of(1, 64), a.x, a.y),
    BUG(stale_tail, "has not been written", of(1, 64), a.x, a.y),
    BUG(padding_read, "has not been written", of(1, 256), a.x, a.y),
    BUG(workspace_not_written, "read of 'z'", of(1, 64), a.z, a.y),
    BUG(output_read_before_written, "read of 'z'[0]", of(1, 64), a.z),
    BUG(unaligned_float4, "misaligned", of(1, 32), a.x, a.y),
    BUG(unaligned_float2, "misaligned", of(1, 32), a.x, a.y),
    BUG(unaligned_copy, "not aligned", of(1, 32), a.x, a.y),
    BUG(barrier_in_a_branch, "barrier divergence", of(1, 64), a.x, a.y),
    BUG(returns_before_the_barrier, "barrier divergence", of(1, 64), a.x, a.y),
    BUG(two_barriers_for_one, "barrier divergence", of(1, 64), a.x, a.y),
    BUG(barrier_per_element, "barrier divergence", of(1, 64), a.x, a.y),
    BUG(full_mask_in_half_a_warp, "a shuffle", of(1, 32), a.x, a.y),
    BUG(shuffle_from_outside, "reads lane 20", of(1, 32), a.x, a.y),
    BUG(shuffle_in_a_ragged_loop, "a shuffle", of(1, 32), a.x, a.y),
    BUG(mask_without_the_caller, "lacks the caller's lane", of(1, 32), a.x, a.y),
    BUG(two_shuffles_for_one, "warp divergence", of(1, 32), a.x, a.y),
    BUG(mma_by_half_a_warp, "mma", of(1, 32), a.y),
    BUG(wgmma_without_a_barrier, "read of 's'", of(1, 128), a.x, a.y),
    BUG(wgmma_without_a_proxy_fence, "no fence_async_proxy since", of(1, 128), a.x, a.y),
        BUG(exits_before_the_vote, "a vote", of(1, 32), a.x, a.y),
    BUG(copy_not_waited_for, "asynchronous copy", of(1, 64), a.x, a.y),
    BUG(copy_without_barrier, "read of 's'", of(1, 64), a.x, a.y),
    BUG(waits_for_too_few, "asynchronous copy", of(1, 32), a.x, a.y),
    BUG(copy_left_behind, "has not waited for", of(1, 32), a.x, a.y),
    BUG(copy_into_what_is_read, "race on 's'", of(1, 32), a.x, a.y),
    BUG(waits_for_too_many, "deadlock", of(1, 64), a.x, a.y),
    BUG(arrives_elsewhere, "deadlock", of(1, 64), a.x, a.y),
    BUG(producer_does_not_arrive, "race on 's'", of(1, 64), a.x, a.y),
    BUG(never_ends, "endless", of(1, 32), a.y),
    BUG(waits_for_an_unset_flag, "deadlock", of(1, 32), a.counter, a.y),
    BUG(recurses, "stack overrun", of(1, 32), a.x, a.y),
    BUG(too_much_static_shared, "static shared memory", of(1, 32), a.x, a.y),
    {"host_pointer", "host memory",
     [](bool fixed, const Arrays& a) { start(&copies<true>, of(1, 32), fixed ? a.x : a.host, a.y); }},
    {"writes_an_input", "which is an input",
     [](bool fixed, const Arrays& a) {
       simt::host::device_memory().find(a.x)->read_only = true;  // until it is released
       start(&copies<true>, of(1, 32), a.x, fixed ? a.y : const_cast<float*>(a.x));
     }},
    {"null_pointer", "null pointer",
     [](bool fixed, const Arrays& a) { start(&copies<true>, of(1, 32), fixed ? a.x : nullptr, a.y); }},
    {"no_dynamic_shared", "the launch requests none",
     [](bool fixed, const Arrays& a) { start(&past_dynamic_shared<true>, of(1, 64, fixed ? 256 : 0), a.x, a.y); }},
    BUG(index_overflows, "integer overflow", of(1, 32), a.x, a.y, 50000, 50000),
    BUG(index_wraps, "out of bounds: read", of(1, 32), a.x, a.y),
    BUG(divides_by_nothing, "division by zero", of(1, 32), a.x, a.y, 0),
    BUG(shifts_too_far, "shift by too much", of(1, 64), a.x, a.y),
    {"static_beside_dynamic_shared", "40960 static bytes",
     [](bool fixed, const Arrays& a) {
       start(&static_beside_dynamic_shared<true>, of(1, 64, fixed ? 1024 : 200 * 1024), a.x, a.y);
     }},
    BUG(ldmatrix_of_global_memory, "the matrix of ldmatrix", of(1, 32), a.x, a.y),
    BUG(copies_to_global_memory, "the target of an asynchronous copy", of(1, 32), a.x, a.y, a.z),
    {"pointer_to_the_hosts_stack", "host memory",
     [](bool fixed, const Arrays& a) {
       float local[kLength] = {};
       start(&copies<true>, of(1, 32), fixed ? a.x : local, a.y);
     }},
    BANK_BUG(past_the_bank, "of 'bank'[256] which has 256 elements", of(1, 256), a.y),
    BANK_BUG(before_the_bank, "of 'bank'[-1]", of(1, 256), a.y),
    BANK_BUG(writes_the_bank, "write of 'bank'[0] at", of(1, 256), a.y),
    BANK_BUG(copies_from_the_bank, "is 'bank', which is in constant memory", of(1, 32), a.x, a.y),
    {"bank_left_by_a_longer_copy", "read of 'bank'[128] at",
     [](bool fixed, const Arrays& a) {
       fill_constant(bank, a.x, kLength, nullptr);
       fill_constant(bank, a.x, fixed ? kLength : kLength / 2, nullptr);
       start(&copies_bank, of(1, kLength), a.y);
     }},
    {"fills_too_much", "a copy of 1028 bytes into 'bank', which has 1024",
     [](bool fixed, const Arrays& a) { fill_constant(bank, a.x, kLength + (fixed ? 0 : 1), nullptr); }},
    {"fills_from_past_the_tensor", "into 'bank' from 'x'[1], which has 256 elements",
     [](bool fixed, const Arrays& a) { fill_constant(bank, a.x + (fixed ? 0 : 1), kLength, nullptr); }},
    {"fills_from_the_host", "memory that is not the device's",
     [](bool fixed, const Arrays& a) { fill_constant(bank, fixed ? a.x : a.host, kLength, nullptr); }},
    {"fills_the_bank_with_what_was_never_written", "has not been written before",
     [](bool fixed, const Arrays& a) { fill_constant(bank, fixed ? a.x : a.z, kLength, nullptr); }},
    BUG(past_the_texture, "fetch of element 256", of(1, 256), Texture<float>(a.x, kLength), a.y),
    BUG(before_the_texture, "fetch of element -1", of(1, 256), Texture<float>(a.x, kLength), a.y),
    BUG(fetches_what_it_wrote, "fetch of 'y'[0] at", of(1, 256), Texture<float>(a.y, kLength), a.x, a.y),
    BUG(fetches_what_others_write, "fetch of 'y'[1] at", of(1, 256), Texture<float>(a.y, kLength), a.y, a.z),
    {"texture_past_the_tensor", "of 'x'[256] which has 256 elements",
     [](bool fixed, const Arrays& a) {
       start(&copies_texture, of(1, kLength), Texture<float>(a.x + (fixed ? 0 : 1), kLength), a.y);
     }},
    {"texture_of_what_was_not_written", "read of 'z'[0]",
     [](bool fixed, const Arrays& a) {
       start(&copies_texture, of(1, kLength), Texture<float>(fixed ? a.x : a.z, kLength), a.y);
     }},
    {"texture_of_the_hosts_memory", "read of host memory",
     [](bool fixed, const Arrays& a) {
       start(&copies_texture, of(1, kLength), Texture<float>(fixed ? a.x : a.host, kLength), a.y);
     }},

    BUG(more_threads_than_bounds, nullptr, of(1, 64), a.x, a.y),
    BUG(looks_once, nullptr, of(3, 32), a.x, a.z, a.counter),
    BUG(fences_the_proxy_after_its_arrival, nullptr, of(1, 160), a.x, a.y),
    BUG(sums_in_any_order, nullptr, of(1, 256), a.x, a.y),
    {"reads_on_another_stream", nullptr,
     [](bool fixed, const Arrays& a) {
       int other = 0;
       Grid second = of(1, 64);
       if (!fixed) second.stream = reinterpret_cast<CUstream_st*>(&other);
       start(&copies<true>, of(1, 64), a.x, a.z);
       start(&copies<true>, second, static_cast<const float*>(a.z), a.y);
     }},
};
[[maybe_unused]] const bool kPlanted = selftest::plant(kBugs, sizeof kBugs / sizeof *kBugs);

}  // namespace
}  // namespace duet::DUET_DEVICE
