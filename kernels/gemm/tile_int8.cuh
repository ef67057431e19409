// SPDX-License-Identifier: Apache-2.0
// The main loop of linear_int8_tuned.cu and product_int8.cu; product_float8.cu has its panels and stages. A block of 4
// warps multiplies a (128 x depth) panel by a (depth x 128) panel on the tensor cores (mma.sync, sums in i32); each
// warp accumulates a 64 x 64 quarter of the result. Both operands have their depth contiguous in memory. In bytes the
// panels, stages and fragments are those of tile_half.cuh: 64 bytes of depth in a step, and a chunk of 16 bytes is what
// one asynchronous copy brings.
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
    // This thread's chunks lie at one depth, kRows rows apart.
    constexpr int kChunks = kDepth / kChunk, kRows = kThreads / kChunks;
    const int row = static_cast<int>(threadIdx.x) / kChunks, chunk = static_cast<int>(threadIdx.x) % kChunks;
    const int64_t at = step * kDepth + chunk * kChunk, along = first_row + row;
    const int exist = static_cast<int>(max(int64_t{0}, min(int64_t{kChunk}, depth - at)));
    const int there = static_cast<int>(max(int64_t{0}, min(int64_t{kTile}, rows - along)));  // rows from `along` on
    const int8_t* from = matrix + along * depth + at;
    int8_t* to = panel + offset(row, chunk);
    if (aligned) {  // exist is 16 or 0
#pragma unroll
      for (int r = 0; r < kTile; r += kRows, from += kRows * depth)
        if (r < there && exist > 0)
          cp_async16(to + offset(r, 0), from);
        else
          store_pack(to + offset(r, 0), Pack<int8_t>{});
      return;
    }
#pragma unroll
    for (int r = 0; r < kTile; r += kRows, from += kRows * depth) {
      Pack<int8_t> pack;
#pragma unroll
      for (int e = 0; e < kChunk; ++e) pack.at[e] = r < there && e < exist ? from[e] : int8_t{0};
      store_pack(to + offset(r, 0), pack);
    }
  }

  // sums += this warp's part of the product. load_a(panel, step) and load_b(panel, step) call load(). shared:
  // kSharedBytes.
  template <class LoadA, class LoadB>
  __device__ __forceinline__ static void multiply(int64_t steps, LoadA&& load_a, LoadB&& load_b, int8_t* shared,
                                                  Sums& sums) {
    for_each_stage(steps, load_a, load_b, shared, [&](const int8_t* a, const int8_t* b) {
#pragma unroll
      for (int d = 0; d < kDepth / kChunk; d += 2) {
        uint32_t rows[4][4], columns[4][4];  // a columns[j] serves two products
#pragma unroll
        for (int i = 0; i < 4; ++i) load_rows(a, d, i, rows[i]);
        load_columns(b, d, columns);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            const uint32_t pair[2] = {columns[j / 2][j % 2 * 2], columns[j / 2][j % 2 * 2 + 1]};
            mma_m16n8k32_s8(sums[i][j], rows[i], pair);
          }
      }
    });
  }

 protected:
  // Calls use(panel of a, panel of b) for each step, once it has been loaded.
  template <class LoadA, class LoadB, class Use>
  __device__ __forceinline__ static void for_each_stage(int64_t steps, LoadA&& load_a, LoadB&& load_b, int8_t* shared,
                                                        Use&& use) {
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
      const int8_t* a = shared + step % kStages * 2 * kPanelBytes;
      use(a, a + kPanelBytes);
    }
  }

  // What this warp multiplies of chunks d and d + 1, the depth of one mma: rows of its product i of a, and its columns
  // of b. ldmatrix: lane l passes the address of row l % 8 of matrix l / 8.
  __device__ __forceinline__ static void load_rows(const int8_t* a, int d, int i, uint32_t (&rows)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, i0 = static_cast<int>(threadIdx.x) / 64 * 64;
    // Matrices: rows 0-7, 8-15 of chunk d, then of chunk d + 1.
    ldmatrix_x4(rows, a + offset(i0 + i * 16 + lane / 8 % 2 * 8 + lane % 8, d + lane / 16));
  }
  __device__ __forceinline__ static void load_columns(const int8_t* b, int d, uint32_t (&columns)[4][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, j0 = static_cast<int>(threadIdx.x) / 32 % 2 * 64;
#pragma unroll
    for (int j = 0; j < 4; ++j)  // matrices: columns 0-7 of chunk d, of d + 1, then columns 8-15
      ldmatrix_x4(columns[j], b + offset(j0 + j * 16 + lane / 16 * 8 + lane % 8, d + lane / 8 % 2));
  }
};

}  // namespace duet::DUET_DEVICE
