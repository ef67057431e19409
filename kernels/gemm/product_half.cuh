// SPDX-License-Identifier: Apache-2.0
// The product of bf16 and f16: a block computes one 128 x 128 tile of c on the tensor cores (tile_half.cuh: mma.sync,
// sums in f32), or, on Hopper, one of product_warpgroup.cuh. product_bf16.cu and product_f16.cu instantiate both, so
// that the two types compile in parallel. Called through product.h.
#pragma once
#include "kernels/activation.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/product_warpgroup.cuh"
#include "kernels/gemm/tile_half.cuh"

namespace duet::DUET_DEVICE {

// sums += this thread's part of the tile at (i0, j0) of op(a) op(b). shared: Tile::kSharedBytes. kAligned: both
// operands are.
template <class T, bool kTransA, bool kTransB, bool kAligned>
__device__ __forceinline__ void multiply_tile(const HalfOperand<T>& a, const HalfOperand<T>& b, int64_t batch,
                                              int64_t i0, int64_t j0, int64_t k, T* shared,
                                              typename TileHalf<T>::Sums& sums) {
  using Tile = TileHalf<T>;
  if constexpr (kAligned)
    return Tile::template multiply<kTransA, kTransB>(
        (k + Tile::kDepth - 1) / Tile::kDepth, CopyPanel<T, Tile, Panel<!kTransA>, !kTransA>(a, batch, i0, k),
        CopyPanel<T, Tile, Panel<kTransB>, kTransB>(b, batch, j0, k), shared, sums);
  // Loads an operand's chunks of a step.
  const auto loader = [&]<bool kDepthContiguous>(const HalfOperand<T>& o, int64_t first) {
    const T* matrix = o.data + batch * o.matrix;
    return [&o, matrix, first, k](T* panel, int64_t step) {
      Tile::template for_my_chunks<kDepthContiguous>([&](int row, int chunk) {
        const int64_t along = first + (kDepthContiguous ? row : chunk * 8);
        const int64_t depth = step * Tile::kDepth + (kDepthContiguous ? chunk * 8 : row);
        const int64_t count = kDepthContiguous ? (along < o.along ? k - depth : 0) : (depth < k ? o.along - along : 0);
        const T* from = matrix + (kDepthContiguous ? along * o.stride + depth : depth * o.stride + along);
        Tile::fetch(panel + Panel<kDepthContiguous>::offset(row, chunk), from, count, o.aligned, o.data);
      });
    };
  };
  Tile::template multiply<kTransA, kTransB>((k + Tile::kDepth - 1) / Tile::kDepth,
                                            loader.template operator()<!kTransA>(a, i0),
                                            loader.template operator()<kTransB>(b, j0), shared, sums);
}

// One block of 128 threads per tile, in the order of Tiles. 64 KiB of dynamic shared memory. c: (batch, m, n); pre: as
// c, or null; bias: (n) or null. pairs: rows of c and pre allow accesses of two elements.
template <class T, bool kTransA, bool kTransB, bool kAligned>
__global__ void __launch_bounds__(TileHalf<T>::kThreads, 2)
    product_kernel(HalfOperand<T> a, HalfOperand<T> b, const T* bias, T* c, T* pre, Tiles tiles, int64_t k, float alpha,
                   bool relu, bool accumulate, bool pairs) {
  using Tile = TileHalf<T>;
  DUET_DYN_SHARED(T, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * Tile::kTile, j0 = at.col * Tile::kTile, m = a.along, n = b.along;

  typename Tile::Sums sums = {};
  multiply_tile<T, kTransA, kTransB, kAligned>(a, b, at.batch, i0, j0, k, shared, sums);

  // Bias and activation or the addition to c, then write back.
  c += at.batch * m * n;
  if (pre) pre += at.batch * m * n;
  for_my_pairs(sums, [&](int i, int j, float first, float second) {
    const int64_t row = i0 + i, col = j0 + j;
    if (row >= m || col >= n) return;
    const auto finish = [&](float sum, int64_t column) {
      const float v = alpha * sum + (bias && column < n ? float(bias[column]) : 0);
      return relu ? fmaxf(v, 0) : v;
    };
    const auto store = [&](T* to, float a, float b) {
      if (pairs) {
        store_pack(to, Pack<T, 2>{{T(a), T(b)}});
      } else {
        to[0] = T(a);
        if (col + 1 < n) to[1] = T(b);
      }
    };
    float v = finish(first, col), u = finish(second, col + 1);
    if (accumulate) {
      const T* before = c + row * n + col;
      const auto pack = pairs ? load_pack<2>(before) : Pack<T, 2>{{before[0], before[col + 1 < n ? 1 : 0]}};
      v += float(pack.at[0]);
      u += float(pack.at[1]);
    }
    if (pre) {
      store(pre + row * n + col, v, u);
      v = gelu_tanh(v);
      u = gelu_tanh(u);
    }
    store(c + row * n + col, v, u);
  });
}

// The same for SlopeProduct: c = gelu'(h) (a b), and part.
template <class T, bool kAligned>
__global__ void __launch_bounds__(TileHalf<T>::kThreads, 2)
    slope_product_kernel(HalfOperand<T> a, HalfOperand<T> b, const T* h, T* c, float* part, Tiles tiles, int64_t k,
                         bool pairs) {
  using Tile = TileHalf<T>;
  static_assert(2 * kPartRows == Tile::kTile);
  DUET_DYN_SHARED(T, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * Tile::kTile, j0 = at.col * Tile::kTile, m = a.along, n = b.along;

  typename Tile::Sums sums = {};
  multiply_tile<T, false, false, kAligned>(a, b, 0, i0, j0, k, shared, sums);

  // Multiply by the slope and write back. What is not in c adds 0.
  for_my_pairs(sums, [&](int i, int j, float& first, float& second) {
    const int64_t row = i0 + i, col = j0 + j, index = row * n + col;
    const bool one = row < m && col < n, two = row < m && col + 1 < n;
    if (pairs && one) {
      const auto pre = load_pack<2>(h + index);
      first *= gelu_tanh_slope(float(pre.at[0]));
      second *= gelu_tanh_slope(float(pre.at[1]));
      store_pack(c + index, Pack<T, 2>{{T(first), T(second)}});
    } else {
      first = one ? first * gelu_tanh_slope(float(h[index])) : 0;
      second = two ? second * gelu_tanh_slope(float(h[index + 1])) : 0;
      if (one) c[index] = T(first);
      if (two) c[index + 1] = T(second);
    }
  });

  // Sums of the columns.
  for_column_sums(sums, [&](int half, int j, float first, float second) {
    const int64_t q = i0 / kPartRows + half, col = j0 + j;
    if (q * kPartRows >= m) return;
    if (col < n) part[q * n + col] = first;
    if (col + 1 < n) part[q * n + col + 1] = second;
  });
}

template <class T>
void enqueue_product_half(const Product& p, const T* a, const T* b, const T* bias, T* c, T* pre, const HalfDevice& on) {
  using Tile = TileHalf<T>;
  const HalfOperand<T> left = half_operand(a, p.m, p.k, !p.trans_a), right = half_operand(b, p.n, p.k, p.trans_b);
  if (const int columns = columns_of_warpgroup(p, left, right, c, pre, on.capability, on.multiprocessors))
    return enqueue_product_warpgroup(p, left, right, bias, c, pre, columns, on.stream);
  const bool pairs =
      p.n % 2 == 0 && reinterpret_cast<uintptr_t>(c) % 4 == 0 && reinterpret_cast<uintptr_t>(pre) % 4 == 0;
  const Tiles tiles{ceil_div(p.m, Tile::kTile), ceil_div(p.n, Tile::kTile)};
  const Grid grid{.blocks = p.batch * tiles.down * tiles.across,
                  .threads = Tile::kThreads,
                  .shared_bytes = Tile::kSharedBytes,
                  .stream = on.stream};
  const auto run = [&]<bool kTransA, bool kTransB>() {
    const bool aligned = left.aligned && right.aligned && p.k < kMaxCopiedDepth;
    launch(aligned ? product_kernel<T, kTransA, kTransB, true> : product_kernel<T, kTransA, kTransB, false>, grid, left,
           right, bias, c, pre, tiles, p.k, p.alpha, p.relu, p.accumulate, pairs);
  };
  if (p.trans_a)
    p.trans_b ? run.template operator()<true, true>() : run.template operator()<true, false>();
  else
    p.trans_b ? run.template operator()<false, true>() : run.template operator()<false, false>();
}

template <class T>
void enqueue_slope_product_half(const SlopeProduct& p, const T* a, const T* b, const T* h, T* c, float* part,
                                cudaStream_t stream) {
  using Tile = TileHalf<T>;
  const bool pairs = p.n % 2 == 0 && reinterpret_cast<uintptr_t>(c) % 4 == 0 && reinterpret_cast<uintptr_t>(h) % 4 == 0;
  const Tiles tiles{ceil_div(p.m, Tile::kTile), ceil_div(p.n, Tile::kTile)};
  const HalfOperand<T> left = half_operand(a, p.m, p.k, true), right = half_operand(b, p.n, p.k, false);
  const bool aligned = left.aligned && right.aligned && p.k < kMaxCopiedDepth;
  launch(aligned ? slope_product_kernel<T, true> : slope_product_kernel<T, false>,
         Grid{.blocks = tiles.down * tiles.across,
              .threads = Tile::kThreads,
              .shared_bytes = Tile::kSharedBytes,
              .stream = stream},
         left, right, h, c, part, tiles, p.k, pairs);
}

}  // namespace duet::DUET_DEVICE
