// SPDX-License-Identifier: Apache-2.0
// A block computes one square tile of c by register tiling (tile_f32.cuh). Small products take small tiles, so that
// there are enough blocks for the GPU. Called through product.h.
#include "kernels/activation.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/tile_f32.cuh"

namespace duet::DUET_DEVICE {
namespace {

// One operand, with the same meaning for a and b: `along` is m or n, `stride` the distance between elements along the
// axis that is not contiguous.
struct Operand {
  const float* data;
  int64_t matrix;  // elements from one matrix of the batch to the next
  int64_t along, stride;
  bool depth_contiguous;
};

// Loads this thread's four neighbours of each step, in order of steps; those outside the matrix are 0. kVector: either
// all four exist or none, and a load is one access of 16 bytes.
template <class Tile, bool kVector>
struct Fetch {
  const float* at;
  int64_t advance, depths_left;  // depths_left: from `at` to the end of the depth
  int along_left;
  bool depth_contiguous;

  __device__ Fetch(const Operand& o, int64_t batch, int64_t first, int64_t depth) {
    const auto place = Tile::place(o.depth_contiguous);
    const int64_t along = first + place.along;
    depth_contiguous = o.depth_contiguous;
    depths_left = depth - place.deep;
    along_left = static_cast<int>(max(int64_t{0}, min(int64_t{4}, o.along - along)));
    advance = depth_contiguous ? Tile::kDepth : Tile::kDepth * o.stride;
    at = o.data + batch * o.matrix + (depth_contiguous ? along * o.stride + place.deep : place.deep * o.stride + along);
  }
  __device__ __forceinline__ void operator()(int64_t, float (&v)[4]) {
    const int depths = static_cast<int>(max(int64_t{0}, min(int64_t{4}, depths_left)));
    const int count = along_left == 0 || depths == 0 ? 0 : depth_contiguous ? depths : along_left;
    if constexpr (kVector) {
      const float4 all = count > 0 ? *reinterpret_cast<const float4*>(at) : make_float4(0, 0, 0, 0);
      v[0] = all.x;
      v[1] = all.y;
      v[2] = all.z;
      v[3] = all.w;
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = e < count ? at[e] : 0;
    }
    at += advance;
    depths_left -= Tile::kDepth;
  }
};

// One block of 256 threads per tile, in the order of Tiles. Shared memory: 16.5 or 17 KiB. c: (batch, m, n); pre: as c,
// or null; bias: (n) or null. vector_c: rows of c and pre allow 16-byte accesses. kAccumulate: adds to c; known when
// compiling, because a choice at run time makes the largest tile spill registers.
template <int kTile, bool kVector, bool kAccumulate>
__global__ void __launch_bounds__(256, 2)
    product_kernel(Operand a, Operand b, const float* bias, float* c, float* pre, Tiles tiles, int64_t k, float alpha,
                   bool relu, bool vector_c) {
  using Tile = TileF32<kTile>;
  DUET_SHARED(float, panel_a, [Tile::kLines][Tile::kPitch]);
  DUET_SHARED(float, panel_b, [Tile::kLines][Tile::kPitch]);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * kTile, j0 = at.col * kTile, m = a.along, n = b.along;

  // Multiply.
  float sum[Tile::kSide][Tile::kSide] = {};
  Tile::multiply((k + Tile::kDepth - 1) / Tile::kDepth, a.depth_contiguous, b.depth_contiguous,
                 Fetch<Tile, kVector>(a, at.batch, i0, k), Fetch<Tile, kVector>(b, at.batch, j0, k), panel_a, panel_b,
                 sum);

  // Add the bias or what c holds, activate, and write back.
  c += at.batch * m * n;
  if (pre) pre += at.batch * m * n;
#pragma unroll
  for (int i = 0; i < Tile::kSide; ++i) {
    const int64_t row = i0 + Tile::row(i);
    if (row >= m) continue;
#pragma unroll
    for (int j = 0; j < Tile::kSide; j += 4) {
      const int64_t col = j0 + Tile::column(j);
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (kAccumulate) {
          v[e] = alpha * sum[i][j + e] + (col + e < n ? c[row * n + col + e] : 0);
        } else {
          v[e] = alpha * sum[i][j + e] + (bias && col + e < n ? bias[col + e] : 0);
          if (relu) v[e] = fmaxf(v[e], 0);
        }
      }
      const auto store = [&](float* to) {
        if (vector_c) {
          if (col < n) *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (col + e < n) to[e] = v[e];
        }
      };
      if (pre) {
        store(pre + row * n + col);
#pragma unroll
        for (int e = 0; e < 4; ++e) v[e] = gelu_tanh(v[e]);
      }
      store(c + row * n + col);
    }
  }
}

// The same for SlopeProduct: c = gelu'(h) (a b), and part. A warp has two rows of threads; line 8 g + w of panel_a is
// for the sums of warp w over its rows of group g, which lie in one part.
template <int kTile, bool kVector>
__global__ void __launch_bounds__(256, 2) slope_product_kernel(Operand a, Operand b, const float* h, float* c,
                                                               float* part, Tiles tiles, int64_t k, bool vector_c) {
  using Tile = TileF32<kTile>;
  static_assert(kPartRows == 64 && Tile::kLines >= 8 * Tile::kGroups);
  DUET_SHARED(float, panel_a, [Tile::kLines][Tile::kPitch]);
  DUET_SHARED(float, panel_b, [Tile::kLines][Tile::kPitch]);
  const auto at = tiles.at(blockIdx.x);
  const int64_t i0 = at.row * kTile, j0 = at.col * kTile, m = a.along, n = b.along;

  // Multiply.
  float sum[Tile::kSide][Tile::kSide] = {};
  Tile::multiply((k + Tile::kDepth - 1) / Tile::kDepth, a.depth_contiguous, b.depth_contiguous,
                 Fetch<Tile, kVector>(a, 0, i0, k), Fetch<Tile, kVector>(b, 0, j0, k), panel_a, panel_b, sum);
  __syncthreads();  // no warp reads the panels any more

  // Multiply by the slope and write back. What is not in c adds 0.
#pragma unroll
  for (int i = 0; i < Tile::kSide; ++i) {
    const int64_t row = i0 + Tile::row(i);
#pragma unroll
    for (int j = 0; j < Tile::kSide; j += 4) {
      const int64_t col = j0 + Tile::column(j), index = row * n + col;
      if (vector_c && row < m && col < n) {
        const auto pre = load_pack<4>(h + index);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j + e] *= gelu_tanh_slope(pre.at[e]);
        *reinterpret_cast<float4*>(c + index) = make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        continue;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool exists = row < m && col + e < n;
        sum[i][j + e] = exists ? sum[i][j + e] * gelu_tanh_slope(h[index + e]) : 0;
        if (exists) c[index + e] = sum[i][j + e];
      }
    }
  }

  // Sums of the columns: of a thread's four rows, of a warp's, then of all warps.
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
#pragma unroll
  for (int g = 0; g < Tile::kGroups; ++g)
#pragma unroll
    for (int j = 0; j < Tile::kSide; ++j) {
      float v = (sum[4 * g][j] + sum[4 * g + 1][j]) + (sum[4 * g + 2][j] + sum[4 * g + 3][j]);
      v += __shfl_xor_sync(~0u, v, 16);
      if (thread % 32 < 16) panel_a[8 * g + warp][Tile::column(j)] = v;
    }
  __syncthreads();
  const int g = thread / kTile, column = thread % kTile;
  const int64_t q = i0 / kPartRows + g;
  if (g >= Tile::kGroups || q * kPartRows >= m || j0 + column >= n) return;
  float total = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) total += panel_a[8 * g + w][column];
  part[q * n + j0 + column] = total;
}

// Calls run<kTile, kVector>() with the tile for a product of these extents. Small products take small tiles, and so do
// those of which large tiles would be empty for a third or more, such as those with 64 rows.
template <class Run>
void with_tile(int64_t batch, const Operand& a, const Operand& b, int multiprocessors, Run&& run) {
  const auto tiles = [&](int64_t side) { return ceil_div(a.along, side) * ceil_div(b.along, side); };
  if (a.stride % 4 != 0 || b.stride % 4 != 0 || !aligned16(a.data, b.data))
    run.template operator()<64, false>();
  else if (batch * tiles(128) < multiprocessors || !fills_tiles_of_128(tiles(64), tiles(128)))
    run.template operator()<64, true>();
  else
    run.template operator()<128, true>();
}

}  // namespace

void enqueue_product_f32(const Product& p, const float* a, const float* b, const float* bias, float* c, float* pre,
                         int multiprocessors, cudaStream_t stream) {
  const Operand left{a, p.m * p.k, p.m, p.trans_a ? p.m : p.k, !p.trans_a};
  const Operand right{b, p.k * p.n, p.n, p.trans_b ? p.k : p.n, p.trans_b};
  const bool vector_c = p.n % 4 == 0 && aligned16(c) && (!pre || aligned16(pre));
  with_tile(p.batch, left, right, multiprocessors, [&]<int kTile, bool kVector>() {
    const Tiles tiles{ceil_div(p.m, kTile), ceil_div(p.n, kTile)};
    launch(p.accumulate ? product_kernel<kTile, kVector, true> : product_kernel<kTile, kVector, false>,
           Grid{.blocks = p.batch * tiles.down * tiles.across, .threads = 256, .stream = stream}, left, right, bias, c,
           pre, tiles, p.k, p.alpha, p.relu, vector_c);
  });
}

void enqueue_slope_product_f32(const SlopeProduct& p, const float* a, const float* b, const float* h, float* c,
                               float* part, int multiprocessors, cudaStream_t stream) {
  const Operand left{a, 0, p.m, p.k, true}, right{b, 0, p.n, p.n, false};
  const bool vector_c = p.n % 4 == 0 && aligned16(c, h);
  with_tile(1, left, right, multiprocessors, [&]<int kTile, bool kVector>() {
    const Tiles tiles{ceil_div(p.m, kTile), ceil_div(p.n, kTile)};
    launch(slope_product_kernel<kTile, kVector>,
           Grid{.blocks = tiles.down * tiles.across, .threads = 256, .stream = stream}, left, right, h, c, part, tiles,
           p.k, vector_c);
  });
}

}  // namespace duet::DUET_DEVICE
