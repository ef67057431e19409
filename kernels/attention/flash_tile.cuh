// SPDX-License-Identifier: Apache-2.0
// Tiles of rows in shared memory and their products by mma.sync, for flash_half.cu and flash_half_backward.cu.
#pragma once
#include "kernels/attention/flash_rows.cuh"
#include "simt/mma.h"

namespace duet::DUET_DEVICE {

// kD: features, padded with zeros; kColumns: of a tile; kM: groups of 16 rows that a warp has; kWarps: of a block. In
// shared memory rows are kPitch apart, so that 8 of them are in different banks. Lane l belongs to group g = l / 4 and
// has number q = l % 4 in it (simt/mma.h).
template <class T, int kD, int kColumns, int kM, int kWarps>
struct FlashTile {
  static constexpr int kThreads = 32 * kWarps, kPitch = kD + 8;
  static constexpr int kRows = kWarps * 16 * kM;  // of a block
  using Scores = float[kM][kColumns / 8][4];      // of 16 rows: g and g + 8, columns 8 n + 2q and the next
  using Sums = float[kM][kD / 8][4];              // as many rows, features 8 n + 2q and the next

  // The address of the first element that this thread copies of rows `first` and on of x, which are `line` apart.
  __device__ static const T* mine(const T* x, int64_t first, int64_t line) {
    constexpr int kPacks = kD / 8;
    return x + (first + static_cast<int>(threadIdx.x) / kPacks) * line + static_cast<int>(threadIdx.x) % kPacks * 8;
  }
  // Starts to copy kCount rows of D elements; from: mine(x, first, line). Only `rows` exist, the others become 0.
  // kAsync: rows allow 16-byte accesses, and the copies join the group of cp.async that the thread commits next; else
  // they are done on return. Called by all threads.
  template <int kCount, bool kAsync>
  __device__ static void fetch(T* tile, const T* from, const T* x, int64_t rows, int64_t D, int64_t line) {
    constexpr int kPacks = kD / 8, kStep = kThreads / kPacks;
    const int row = static_cast<int>(threadIdx.x) / kPacks, c = static_cast<int>(threadIdx.x) % kPacks * 8;
    const int exist = c < D ? static_cast<int>(min(int64_t{kCount}, rows)) : 0;
#pragma unroll
    for (int r = 0; r < kCount; r += kStep, from += kStep * line) {
      T* to = tile + (row + r) * kPitch + c;
      const bool inside = row + r < exist;
      if constexpr (kAsync) {
        cp_async16(to, inside ? from : x, inside ? 16 : 0);
      } else {
        const int64_t left = inside ? D - c : 0;
        Pack<T> pack;
#pragma unroll
        for (int e = 0; e < 8; ++e) pack.at[e] = e < left ? from[e] : T(0.0f);
        store_pack(to, pack);
      }
    }
  }
  // s = the kM * 16 rows of a from `row` on, times the kColumns rows of b.
  __device__ static void scores(const T* a, int row, const T* b, Scores& s) {
    const int lane = static_cast<int>(threadIdx.x) % 32, r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[m][n][e] = 0;
#pragma unroll
    for (int c = 0; c < kD; c += 16) {
      uint32_t left[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) ldmatrix_x4(left[m], a + (row + m * 16 + odd * 8 + r) * kPitch + c + high * 8);
#pragma unroll
      for (int n = 0; n < kColumns / 8; n += 2) {
        uint32_t right[4];  // columns n: depth 0-7, 8-15; columns n + 1
        ldmatrix_x4(right, b + ((n + high) * 8 + r) * kPitch + c + odd * 8);
        const uint32_t one[2] = {right[0], right[1]}, two[2] = {right[2], right[3]};
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          mma_m16n8k16<T>(s[m][n], left[m], one);
          mma_m16n8k16<T>(s[m][n + 1], left[m], two);
        }
      }
    }
  }
  // sums += s b, b: (kColumns, kD)
  __device__ static void accumulate(const Scores& s, const T* b, Sums& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32, r = lane % 8, odd = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      uint32_t left[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        left[m][0] = pack_pair<T>(s[m][n][0], s[m][n][1]);
        left[m][1] = pack_pair<T>(s[m][n][2], s[m][n][3]);
        left[m][2] = pack_pair<T>(s[m][n + 1][0], s[m][n + 1][1]);
        left[m][3] = pack_pair<T>(s[m][n + 1][2], s[m][n + 1][3]);
      }
#pragma unroll
      for (int c = 0; c < kD / 8; c += 2) {
        uint32_t right[4];  // features c: depth 0-7, 8-15; features c + 1
        ldmatrix_x4<true>(right, b + (n * 8 + odd * 8 + r) * kPitch + (c + high) * 8);
        const uint32_t one[2] = {right[0], right[1]}, two[2] = {right[2], right[3]};
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          mma_m16n8k16<T>(sums[m][c], left[m], one);
          mma_m16n8k16<T>(sums[m][c + 1], left[m], two);
        }
      }
    }
  }
  // Writes this warp's sums to y, whose `rows` rows of D elements are `line` apart, and of which its first is `first`:
  // rows m * 16 + g + 8 * half, times factor[m][half]; their features begin at `feature`. pairs: y allows 2-element
  // accesses.
  template <int kCount>
  __device__ static void write(const float (&sums)[kM][kCount][4], const float (&factor)[kM][2], T* y, int64_t first,
                               int64_t rows, int64_t D, int64_t line, bool pairs, int feature = 0) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t at = first + m * 16 + lane / 4 + 8 * half;
        if (at >= rows) continue;
        store_row<kCount>(&sums[m][0][2 * half], factor[m][half], y + at * line, D, pairs, feature);
      }
  }
};

}  // namespace duet::DUET_DEVICE
