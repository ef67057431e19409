// SPDX-License-Identifier: Apache-2.0
// The product of bf16 and f16 on Hopper: a block computes one tile of c by wgmma (tile_warpgroup.cuh). For operands
// that copies of 16 bytes can follow, and at least 16 rows; product_half.cuh computes the others.
#pragma once
#include "kernels/activation.cuh"
#include "kernels/gemm/copy_panel.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/tile_warpgroup.cuh"

namespace duet::DUET_DEVICE {

// One block of 384 threads per tile, in the order of Tiles. c: (batch, m, n), aligned to 16 bytes, n a multiple of 8;
// pre: as c, or null; bias: (n) or null. k is a multiple of 8 where it is contiguous.
template <class T, int kColumns, bool kTransA, bool kTransB>
__global__ void __launch_bounds__(TileWarpgroup<T, kColumns>::kThreads, 1)
    product_warpgroup_kernel(HalfOperand<T> a, HalfOperand<T> b, const T* bias, T* c, T* pre, Tiles tiles, int64_t k,
                             float alpha, bool relu, bool accumulate) {
  using Tile = TileWarpgroup<T, kColumns>;
  DUET_DYN_SHARED(T, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * Tile::kRows, j0 = at.col * kColumns, m = a.along, n = b.along;

  typename Tile::Sums sums = {};
  Tile::template multiply<kTransA, kTransB>(
      (k + Tile::kDepth - 1) / Tile::kDepth,
      CopyPanel<T, Tile, typename Tile::template PanelA<!kTransA>, !kTransA>(a, at.batch, i0, k),
      CopyPanel<T, Tile, typename Tile::template PanelB<kTransB>, kTransB>(b, at.batch, j0, k), shared, sums);

  // Bias and activation or the addition to c, then write back 8 neighbours at a time.
  Tile::for_my_results(sums, shared, [&](int i, int j, const float(&sum)[8]) {
    const int64_t row = i0 + i, col = j0 + j, index = (at.batch * m + row) * n + col;
    if (row >= m || col >= n) return;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = alpha * sum[e];
    if (bias) {
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] += float(bias[col + e]);
    }
    if (accumulate) {
      const auto before = load_pack<8>(c + index);
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] += float(before.at[e]);
    }
    Pack<T> out;
    if (pre) {
#pragma unroll
      for (int e = 0; e < 8; ++e) out.at[e] = T(v[e]);
      store_pack(pre + index, out);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) out.at[e] = T(pre ? gelu_tanh(v[e]) : relu ? fmaxf(v[e], 0) : v[e]);
    store_pack(c + index, out);
  });
}

// Whether the kernel above takes this product, and the columns of its tiles: 0, 64, 128 or 256. Narrow tiles are for
// products that would leave multiprocessors without one.
template <class T>
int columns_of_warpgroup(const Product& p, const HalfOperand<T>& a, const HalfOperand<T>& b, const T* c, const T* pre,
                         int capability, int multiprocessors) {
  const bool aligned = a.aligned && b.aligned && aligned16(c, pre) && p.n % 8 == 0;
  if (!has_wgmma(capability) || !aligned || p.m < 16 || p.n < 64 || p.k < 64 || p.k >= kMaxCopiedDepth) return 0;
  for (const int columns : {256, 128})
    if (p.n >= columns && p.batch * ceil_div(p.m, 128) * ceil_div(p.n, columns) >= multiprocessors) return columns;
  return 64;
}

template <class T>
void enqueue_product_warpgroup(const Product& p, const HalfOperand<T>& a, const HalfOperand<T>& b, const T* bias, T* c,
                               T* pre, int columns, cudaStream_t stream) {
  const auto run = [&]<int kColumns, bool kTransA, bool kTransB>() {
    using Tile = TileWarpgroup<T, kColumns>;
    const Tiles tiles{ceil_div(p.m, Tile::kRows), ceil_div(p.n, kColumns)};
    launch(product_warpgroup_kernel<T, kColumns, kTransA, kTransB>,
           Grid{.blocks = p.batch * tiles.down * tiles.across,
                .threads = Tile::kThreads,
                .shared_bytes = Tile::kSharedBytes,
                .stream = stream},
           a, b, bias, c, pre, tiles, p.k, p.alpha, p.relu, p.accumulate);
  };
  const auto by_columns = [&]<bool kTransA, bool kTransB>() {
    columns == 256   ? run.template operator()<256, kTransA, kTransB>()
    : columns == 128 ? run.template operator()<128, kTransA, kTransB>()
                     : run.template operator()<64, kTransA, kTransB>();
  };
  if (p.trans_a)
    p.trans_b ? by_columns.template operator()<true, true>() : by_columns.template operator()<true, false>();
  else
    p.trans_b ? by_columns.template operator()<false, true>() : by_columns.template operator()<false, false>();
}

}  // namespace duet::DUET_DEVICE
