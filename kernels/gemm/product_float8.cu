// SPDX-License-Identifier: Apache-2.0
// The product of f8e4m3: as that of i8 (product_int8.cu), a block computes one 128 x 128 tile of c on the tensor cores,
// and operands whose k is not contiguous are transposed first. The tensor cores' own sums may be short of bits, so that
// only 64 products are added in one before it goes to a sum in f32 (ops/gemm/product.h, kEightBitChain). sm_89 has an
// instruction for mma.sync of f8e4m3. For sm_90 ptxas 13.0 converts to f16 and multiplies that, at the rate of f16: the
// rate of f8e4m3 needs wgmma.
#include "kernels/gemm/product_float8.h"
#include "kernels/gemm/product_int8.h"
#include "kernels/gemm/tile_int8.cuh"

namespace duet::DUET_DEVICE {
namespace {

// The main loop: panels, stages and fragments are those of i8.
struct TileFloat8 : TileInt8 {
  using Sums = float[4][8][4];  // of a warp: 4 x 8 products of 16 x 8

  // As TileInt8::multiply.
  template <class LoadA, class LoadB>
  __device__ __forceinline__ static void multiply(int64_t steps, LoadA&& load_a, LoadB&& load_b, int8_t* shared,
                                                  Sums& sums) {
    for_each_stage(steps, load_a, load_b, shared, [&](const int8_t* a, const int8_t* b) {
      constexpr int kProducts = kDepth / kChunk / 2;  // of one element of c in a chain
      uint32_t columns[kProducts][4][4];
#pragma unroll
      for (int p = 0; p < kProducts; ++p) load_columns(b, 2 * p, columns[p]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        uint32_t rows[kProducts][4];
#pragma unroll
        for (int p = 0; p < kProducts; ++p) load_rows(a, 2 * p, i, rows[p]);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          float chain[4] = {};
#pragma unroll
          for (int p = 0; p < kProducts; ++p) {
            const uint32_t pair[2] = {columns[p][j / 2][j % 2 * 2], columns[p][j / 2][j % 2 * 2 + 1]};
            mma_m16n8k32_e4m3(chain, rows[p], pair);
          }
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[i][j][e] += chain[e];
        }
      }
    });
  }
};

// One block of 128 threads per tile, in the order of Tiles. 64 KiB of dynamic shared memory. a: (batch, m, k), b:
// (batch, n, k), bits of f8e4m3; c: (batch, m, n). a_aligned, b_aligned: their rows begin at multiples of 16 bytes;
// pairs: those of c at multiples of 4.
__global__ void __launch_bounds__(TileFloat8::kThreads, 2)
    product_float8_kernel(const int8_t* a, const int8_t* b, __nv_bfloat16* c, Tiles tiles, int64_t m, int64_t n,
                          int64_t k, float alpha, bool a_aligned, bool b_aligned, bool pairs) {
  using Tile = TileFloat8;
  DUET_DYN_SHARED(int8_t, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * Tile::kTile, j0 = at.col * Tile::kTile;
  a += at.batch * m * k;
  b += at.batch * n * k;
  c += at.batch * m * n;

  // Multiply.
  Tile::Sums sums = {};
  Tile::multiply((k + Tile::kDepth - 1) / Tile::kDepth,
                 [&](int8_t* panel, int64_t step) { Tile::load(panel, a, i0, m, k, step, a_aligned); },
                 [&](int8_t* panel, int64_t step) { Tile::load(panel, b, j0, n, k, step, b_aligned); }, shared, sums);

  // Write back.
  for_my_pairs(sums, [&](int i, int j, float first, float second) {
    const int64_t row = i0 + i, col = j0 + j;
    if (row >= m || col >= n) return;
    __nv_bfloat16* const to = c + row * n + col;
    const auto one = __nv_bfloat16(alpha * first), two = __nv_bfloat16(alpha * second);
    if (pairs) {
      store_pack(to, Pack<__nv_bfloat16, 2>{{one, two}});
    } else {
      to[0] = one;
      if (col + 1 < n) to[1] = two;
    }
  });
}
}  // namespace

int64_t product_float8_workspace_bytes(const Product& p) { return product_int8_workspace_bytes(p); }

void enqueue_product_float8(const Product& p, const uint8_t* a_bits, const uint8_t* b_bits, __nv_bfloat16* c,
                            int8_t* workspace, cudaStream_t stream) {
  if (p.batch * p.m * p.n == 0) return;
  const auto [a, b] = enqueue_contiguous_depth(p, reinterpret_cast<const int8_t*>(a_bits),
                                               reinterpret_cast<const int8_t*>(b_bits), workspace, stream);
  const Tiles tiles{ceil_div(p.m, TileFloat8::kTile), ceil_div(p.n, TileFloat8::kTile)};
  const Grid grid{.blocks = p.batch * tiles.down * tiles.across,
                  .threads = TileFloat8::kThreads,
                  .shared_bytes = TileFloat8::kSharedBytes,
                  .stream = stream};
  const bool whole = p.k % TileFloat8::kChunk == 0, pairs = p.n % 2 == 0 && reinterpret_cast<uintptr_t>(c) % 4 == 0;
  launch(product_float8_kernel, grid, a, b, c, tiles, p.m, p.n, p.k, p.alpha, whole && aligned16(a),
         whole && aligned16(b), pairs);
}

}  // namespace duet::DUET_DEVICE
