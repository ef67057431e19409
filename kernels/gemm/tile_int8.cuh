// SPDX-License-Identifier: Apache-2.0
// The i8 main loop, used by linear_int8_tuned.cu: a block of 4 warps multiplies a (128 x depth) panel by a (depth x
// 128) panel on the tensor cores (mma.sync, sums in i32); each warp accumulates a 64 x 64 quarter of the result. Both
// operands have their depth contiguous in memory. In bytes the panels, stages and fragments are those of tile_half.cuh:
// 64 bytes of depth in a step, and a chunk of 16 bytes is what one asynchronous copy brings.
#pragma once
#include "kernels/gemm/tile_half.cuh"

namespace duet::DUET_DEVICE {

struct TileInt8 {
  static constexpr int kTile = 128, kDepth = 64, kChunk = 16, kThreads = 128, kStages = 4;
  static constexpr int kPanelBytes = kTile * kDepth;
  static constexpr int kSharedBytes = kStages * 2 * kPanelBytes;  // 64 KiB, dynamic
  using Sums = int[4][8][4];                                      // of a warp: 4 x 8 products of 16 x 8

  // Where a chunk of a row is stored in a panel, in bytes: as 8 halves would be.
  __device__ __forceinline__ static int offset(int row, int chunk) { return 2 * Panel<true>::offset(row, chunk); }

  // Loads this thread's chunks of a step into a panel. rows, depth: of the matrix; those beyond become 0. aligned: rows
  // begin at multiples of 16 bytes.
  __device__ __forceinline__ static void load(int8_t* panel, const int8_t* matrix, int64_t first_row, int64_t rows,
                                              int64_t depth, int64_t step, bool aligned) {
    constexpr int kChunks = kDepth / kChunk;
#pragma unroll
    for (int c = 0; c < kTile * kChunks / kThreads; ++c) {
      const int index = static_cast<int>(threadIdx.x) + c * kThreads;
      const int row = index / kChunks, chunk = index % kChunks;
      const int64_t at = step * kDepth + chunk * kChunk, along = first_row + row;
      const int exist = along < rows ? static_cast<int>(max(int64_t{0}, min(int64_t{kChunk}, depth - at))) : 0;
      const int8_t* from = matrix + along * depth + at;
      int8_t* to = panel + offset(row, chunk);
      if (aligned) {
        cp_async16(to, exist > 0 ? from : matrix, exist);
      } else {
        Pack<int8_t> pack;
#pragma unroll
        for (int e = 0; e < kChunk; ++e) pack.at[e] = e < exist ? from[e] : int8_t{0};
        store_pack(to, pack);
      }
    }
  }

  // sums += this warp's part of the product. load_a(panel, step) and load_b(panel, step) call load(). shared:
  // kSharedBytes.
  template <class LoadA, class LoadB>
  __device__ __forceinline__ static void multiply(int64_t steps, LoadA&& load_a, LoadB&& load_b, int8_t* shared,
                                                  Sums& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int i0 = warp / 2 * 64, j0 = warp % 2 * 64;
    const auto fill = [&](int64_t step) {
      int8_t* stage = shared + step % kStages * 2 * kPanelBytes;
      if (step < steps) {
        load_a(stage, step);
        load_b(stage + kPanelBytes, step);
      }
      cp_async_commit();  // also after the last step, so that the number of groups is the number of steps
    };
    // Fill the first stages.
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) fill(s);

    for (int64_t step = 0; step < steps; ++step) {
      // Wait for this step: first for this thread's copies, then for those of all threads. After the barrier no thread
      // reads the stage that is filled next.
      cp_async_wait<kStages - 2>();
      __syncthreads();
      fill(step + kStages - 1);

      // Fragments to registers, then multiply.
      const int8_t* a = shared + step % kStages * 2 * kPanelBytes;
      const int8_t* b = a + kPanelBytes;
#pragma unroll
      for (int d = 0; d < kDepth / kChunk; d += 2) {  // two chunks: the depth of one mma
        // ldmatrix: lane l passes the address of row l % 8 of matrix l / 8.
        const int r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
        uint32_t fa[4][4], fb[4][4];  // an fb[j] serves two products
#pragma unroll
        for (int i = 0; i < 4; ++i)  // matrices: rows 0-7, 8-15 of chunk d, then of chunk d + 1
          ldmatrix_x4(fa[i], a + offset(i0 + i * 16 + odd * 8 + r, d + high));
#pragma unroll
        for (int j = 0; j < 4; ++j)  // matrices: columns 0-7 of chunk d, of d + 1, then columns 8-15
          ldmatrix_x4(fb[j], b + offset(j0 + j * 16 + high * 8 + r, d + odd));
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const uint32_t pair[2] = {fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]};
            mma_m16n8k32_s8(sums[i][j], fa[i], pair);
          }
      }
    }
  }
};

}  // namespace duet::DUET_DEVICE
