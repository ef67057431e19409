// SPDX-License-Identifier: Apache-2.0
// The main loop of bf16 and f16 on Hopper: a block multiplies a (128 x depth) panel by a (depth x kColumns) panel by
// wgmma. Two warpgroups multiply, each for 64 rows of the result; four more warps copy the panels to shared memory,
// each every fourth step. Copies are of the generic proxy, and the tensor cores read by the asynchronous one: between
// them the copying warp waits for its copies and fences. Warps that multiply do not stall on that.
#pragma once
#include <algorithm>

#include "kernels/vector.cuh"
#include "simt/wgmma.h"

namespace duet::DUET_DEVICE {

// Whether a convolution of this depth runs on these tiles: of two steps at least.
inline bool takes_warpgroups(int capability, int64_t depth) { return has_wgmma(capability) && depth >= 128; }

// A panel in shared memory, of 16-bit elements, in lines of 64 elements (simt/wgmma.h). Depth contiguous: a line is a
// row (along m or n), else a depth. Rows or depths longer than that have several columns of lines.
template <bool kDepthContiguous, int kAlong, int kDepth>
struct SwizzledPanel {
  static constexpr int kLines = kDepthContiguous ? kAlong : kDepth, kChunks = (kDepthContiguous ? kDepth : kAlong) / 8;
  static constexpr int kElements = kLines * kChunks * 8;
  static_assert(kLines % 8 == 0 && kChunks % 8 == 0);
  // Where a chunk of 8 elements of a line is.
  __device__ __forceinline__ static constexpr int offset(int line, int chunk) {
    return (chunk / 8 * kLines + line) * 64 + (chunk % 8 ^ line % 8) * 8;
  }
  // The operand of a product that begins at these elements: along is a multiple of 8 and depth of 16; not depth
  // contiguous, along of 64 and depth of 8.
  template <class T>
  __device__ __forceinline__ static SwizzledLines at(const T* panel, int along, int depth) {
    if constexpr (kDepthContiguous)
      return {panel + (depth / 64 * kLines + along) * 64 + depth % 64};
    else
      return {panel + (along / 64 * kLines + depth) * 64, kLines * 64 * int{sizeof(T)}};
  }
};

template <class T, int kColumns_>
struct TileWarpgroup {
  static constexpr int kRows = 128, kColumns = kColumns_, kDepth = 64, kStages = 4;
  static constexpr int kMultiply = 256, kThreads = kMultiply + 32 * kStages;  // each warp that copies has a stage
  template <bool kDepthContiguous>
  using PanelA = SwizzledPanel<kDepthContiguous, kRows, kDepth>;
  template <bool kDepthContiguous>
  using PanelB = SwizzledPanel<kDepthContiguous, kColumns, kDepth>;
  static constexpr int kStageElements = (kRows + kColumns) * kDepth;
  // 97, 129 or 193 KiB, dynamic.
  static constexpr int kSharedBytes = kStages * kStageElements * int{sizeof(T)} + kSwizzleBytes;
  using Sums = float[kColumns / 2];

  // A thread's chunks of a panel: lines `line`, line + kLineStep, ... and chunks `chunk`, chunk + kChunkStep, ... of
  // the panels of steps first_step(), first_step() + kStepsApart, ... A warp copies four whole lines at a time.
  template <class Panel>
  struct Share {
    static constexpr int kLineStep = 4, kChunkStep = 8, kPeriod = 2;  // after kPeriod steps chunks lie alike in a line
    int line = static_cast<int>(threadIdx.x) % 32 / 8, chunk = static_cast<int>(threadIdx.x) % 8;
  };
  static constexpr int kStepsApart = kStages;
  __device__ __forceinline__ static int first_step() { return (static_cast<int>(threadIdx.x) - kMultiply) / 32; }

  // sums += this warpgroup's part of the product. load_a(panel, step) and load_b(panel, step) start the copies of this
  // thread's chunks of a step; they are called for each of its steps, in order. kTransA: m is contiguous in the panel
  // of a. kTransB: depth is contiguous in the panel of b. shared: kSharedBytes.
  template <bool kTransA, bool kTransB, class LoadA, class LoadB>
  __device__ __forceinline__ static void multiply(int64_t step_count, LoadA&& load_a, LoadB&& load_b, T* shared,
                                                  Sums& sums) {
    using A = PanelA<!kTransA>;
    using B = PanelB<kTransB>;
    // Named barriers of a stage: it is full, and it is empty again. 0 is that of __syncthreads.
    constexpr int kTogether = kMultiply + 32;
    const auto full = [](int stage) { return 1 + stage; };
    const auto empty = [](int stage) { return 1 + kStages + stage; };
    const int steps = static_cast<int>(step_count);  // at most 2^30
    shared = swizzled_start(shared);
    if (threadIdx.x >= kMultiply) {
      const int stage = first_step();
      T* panel = shared + stage * kStageElements;
      for (int step = stage; step < steps; step += kStages) {
        if (step >= kStages) bar_sync(empty(stage), kTogether);
        load_a(panel, step);
        load_b(panel + A::kElements, step);
        cp_async_commit();
        cp_async_wait<0>();
        fence_async_proxy();
        bar_arrive(full(stage), kTogether);
      }
      return;
    }
    const int i0 = static_cast<int>(threadIdx.x) / 128 * 64;
    for (int step = 0; step < steps; ++step) {
      const int stage = step % kStages;
      const T* a = shared + stage * kStageElements;
      bar_sync(full(stage), kTogether);
      wgmma_fence();
#pragma unroll
      for (int d = 0; d < kDepth; d += 16)
        wgmma_m64k16<T, kColumns, kTransA, !kTransB>(sums, A::at(a, i0, d), B::at(a + A::kElements, 0, d));
      wgmma_commit();
      wgmma_wait<1>();  // for the step before, whose stage is empty now
      if (step > 0 && step - 1 + kStages < steps) bar_arrive(empty((step - 1) % kStages), kTogether);
    }
    wgmma_wait_for(sums);
  }

  // Calls f(row, column, values) for what this thread writes of the result: eight neighbours in a row. Passes through
  // shared memory, where rows have a pitch of kPitch floats, so that a warp's stores meet all banks.
  static constexpr int kPack = 8, kPitch = kColumns + 8;
  static_assert(kRows * kPitch * int{sizeof(float)} <= kSharedBytes);
  template <class F>
  __device__ __forceinline__ static void for_my_results(const Sums& sums, T* shared, F&& f) {
    float* result = reinterpret_cast<float*>(shared);
    __syncthreads();  // no warpgroup multiplies any more
    if (threadIdx.x < kMultiply) {
      const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
      float* to = result + (warp * 16 + lane / 4) * kPitch + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += 2)  // two neighbours in a row
        store_pack(to + i % 4 / 2 * 8 * kPitch + i / 4 * 8, Pack<float, 2>{{sums[i], sums[i + 1]}});
    }
    __syncthreads();
    constexpr int kPacks = kColumns / kPack;
    for (int p = static_cast<int>(threadIdx.x); p < kRows * kPacks; p += kThreads) {
      const int row = p / kPacks, column = p % kPacks * kPack;
      const float* from = result + row * kPitch + column;
      const auto low = load_pack<4>(from), high = load_pack<4>(from + 4);
      float values[kPack];
#pragma unroll
      for (int e = 0; e < kPack; ++e) values[e] = e < 4 ? low.at[e] : high.at[e - 4];
      f(row, column, values);
    }
  }
};

}  // namespace duet::DUET_DEVICE
