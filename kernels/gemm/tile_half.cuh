// SPDX-License-Identifier: Apache-2.0
// The main loop of bf16 and f16, used by product_half.cuh and the convolutions: a block of 4 warps multiplies a (128 x
// depth) panel by a (depth x 128) panel on the tensor cores; each warp accumulates a 64 x 64 quarter of the result.
// Panels pass through shared memory by asynchronous copies, which are issued three steps ahead.
#pragma once
#include "kernels/vector.cuh"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {

// Where a chunk of 8 elements (16 bytes) of a step's panel is stored in shared memory. The chunks of a row are permuted
// (XOR with the row's number), so that the 8 rows that an ldmatrix reads at the same chunk are in different banks.
template <bool kDepthContiguous>
struct Panel {
  static constexpr int kTile = 128, kDepth = 32;
  static constexpr int kElements = kTile * kDepth;
  // Depth contiguous: 128 rows (along m or n) of 4 chunks, so that two rows are 128 bytes. Else 32 rows (depth) of 16
  // chunks.
  static constexpr int kLines = kDepthContiguous ? kTile : kDepth, kChunks = (kDepthContiguous ? kDepth : kTile) / 8;
  __device__ __forceinline__ static constexpr int offset(int row, int chunk) {
    return row * kChunks * 8 + (chunk ^ (kDepthContiguous ? row / 2 % 4 : row % 8)) * 8;
  }
};

// Calls f(row, column, first, second) for all of the 128 x 128 result that this thread holds: two neighbours in a row,
// column even. sums: of a warp, 4 x 8 products of 16 x 8, each warp of four with a quarter. f may change first and
// second.
template <class Sum, class F>
__device__ __forceinline__ void for_my_pairs(Sum (&sums)[4][8][4], F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < 8; ++j)
        f(warp / 2 * 64 + i * 16 + half * 8 + lane / 4, warp % 2 * 64 + j * 8 + lane % 4 * 2, sums[i][j][2 * half],
          sums[i][j][2 * half + 1]);
}

// Calls f(half, column, first, second) with the sums of two neighbouring columns over the 64 rows of a half of the
// result, column even, by four threads of each warp. Called by all threads; sums: as above.
template <class F>
__device__ __forceinline__ void for_column_sums(const float (&sums)[4][8][4], F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    float pair[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float v = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) v += sums[i][j][e] + sums[i][j][2 + e];
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) v += __shfl_xor_sync(~0u, v, distance);
      pair[e] = v;
    }
    if (lane < 4) f(warp / 2, warp % 2 * 64 + j * 8 + lane * 2, pair[0], pair[1]);
  }
}

template <class T>
struct TileHalf {
  static constexpr int kTile = 128, kDepth = 32, kThreads = 128, kStages = 4, kStepsApart = 1;
  static constexpr int kChunksPerThread = kTile * kDepth / 8 / kThreads;
  static constexpr int kSharedBytes = kStages * 2 * kTile * kDepth * int{sizeof(T)};  // 64 KiB, dynamic
  using Sums = float[4][8][4];  // of a warp: 4 x 8 products of 16 x 8

  // A thread's chunks of each panel: lines `line`, line + kLineStep, ... at one chunk (copy_panel.cuh).
  template <class P>
  struct Share {
    static constexpr int kLineStep = kThreads / P::kChunks, kChunkStep = P::kChunks, kPeriod = 1;
    int line = static_cast<int>(threadIdx.x) / P::kChunks, chunk = static_cast<int>(threadIdx.x) % P::kChunks;
  };
  __device__ __forceinline__ static int first_step() { return 0; }

  // Calls f(row, chunk) for every chunk of a panel that this thread loads.
  template <bool kDepthContiguous, class F>
  __device__ __forceinline__ static void for_my_chunks(F&& f) {
    constexpr int kChunks = Panel<kDepthContiguous>::kChunks;
#pragma unroll
    for (int c = 0; c < kChunksPerThread; ++c) {
      const int index = static_cast<int>(threadIdx.x) + c * kThreads;
      f(index / kChunks, index % kChunks);
    }
  }
  // Loads one chunk. Of its 8 elements the first `count` exist (none where count is 0 or less); the others become 0.
  // aligned: `from` is aligned to 16 bytes. `somewhere`: any valid aligned address, for chunks without an element.
  __device__ __forceinline__ static void fetch(T* to, const T* from, int64_t count, bool aligned, const T* somewhere) {
    const int exist = static_cast<int>(max(int64_t{0}, min(int64_t{8}, count)));
    if (aligned) {
      cp_async16(to, exist > 0 ? from : somewhere, exist * int{sizeof(T)});
    } else {
      Pack<T> pack;
#pragma unroll
      for (int e = 0; e < 8; ++e) pack.at[e] = e < exist ? from[e] : T(0.0f);
      store_pack(to, pack);
    }
  }

  // sums += this warp's part of the product. load_a(panel, step) and load_b(panel, step) load this thread's chunks of a
  // step. kTransA: m is contiguous in the panel of a. kTransB: depth is contiguous in the panel of b. shared:
  // kSharedBytes.
  template <bool kTransA, bool kTransB, class LoadA, class LoadB>
  __device__ __forceinline__ static void multiply(int64_t steps, LoadA&& load_a, LoadB&& load_b, T* shared,
                                                  Sums& sums) {
    using PanelA = Panel<!kTransA>;
    using PanelB = Panel<kTransB>;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int i0 = warp / 2 * 64, j0 = warp % 2 * 64;
    const auto load = [&](int64_t step) {
      T* stage = shared + step % kStages * (PanelA::kElements + PanelB::kElements);
      if (step < steps) {
        load_a(stage, step);
        load_b(stage + PanelA::kElements, step);
      }
      cp_async_commit();  // also after the last step, so that the number of groups is the number of steps
    };
    // Fill the first stages.
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) load(s);

    for (int64_t step = 0; step < steps; ++step) {
      // Wait for this step: first for this thread's copies, then for those of all threads. After the barrier no thread
      // reads the stage that is filled next.
      cp_async_wait<kStages - 2>();
      __syncthreads();
      load(step + kStages - 1);

      // Fragments to registers, then multiply.
      const T* a = shared + step % kStages * (PanelA::kElements + PanelB::kElements);
      const T* b = a + PanelA::kElements;
#pragma unroll
      for (int d = 0; d < kDepth; d += 16) {
        // ldmatrix: lane l passes the address of row l % 8 of matrix l / 8.
        const int r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
        uint32_t fa[4][4], fb[4][4];  // an fb[j] serves two products
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // matrices: rows 0-7, 8-15 at depth 0-7, then at depth 8-15
          const int row = i0 + i * 16 + odd * 8;
          if constexpr (kTransA)
            ldmatrix_x4<true>(fa[i], a + PanelA::offset(d + high * 8 + r, row / 8));
          else
            ldmatrix_x4(fa[i], a + PanelA::offset(row + r, d / 8 + high));
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // matrices: columns 0-7 at depth 0-7, 8-15, then columns 8-15
          const int col = j0 + j * 16 + high * 8;
          if constexpr (kTransB)
            ldmatrix_x4(fb[j], b + PanelB::offset(col + r, d / 8 + odd));
          else
            ldmatrix_x4<true>(fb[j], b + PanelB::offset(d + odd * 8 + r, col / 8));
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const uint32_t pair[2] = {fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]};
            mma_m16n8k16<T>(sums[i][j], fa[i], pair);
          }
      }
    }
  }
};

}  // namespace duet::DUET_DEVICE
