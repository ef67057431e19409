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

}  // namespace

void enqueue_product_f32(const Product& p, const float* a, const float* b, const float* bias, float* c, float* pre,
                         int multiprocessors, cudaStream_t stream) {
  const Operand left{a, p.m * p.k, p.m, p.trans_a ? p.m : p.k, !p.trans_a};
  const Operand right{b, p.k * p.n, p.n, p.trans_b ? p.k : p.n, p.trans_b};
  const bool vector_c = p.n % 4 == 0 && aligned16(c) && (!pre || aligned16(pre));
  const auto run = [&]<int kTile, bool kVector>() {
    const Tiles tiles{ceil_div(p.m, kTile), ceil_div(p.n, kTile)};
    launch(p.accumulate ? product_kernel<kTile, kVector, true> : product_kernel<kTile, kVector, false>,
           Grid{.blocks = p.batch * tiles.down * tiles.across, .threads = 256, .stream = stream}, left, right, bias, c,
           pre, tiles, p.k, p.alpha, p.relu, vector_c);
  };
  if (left.stride % 4 != 0 || right.stride % 4 != 0 || !aligned16(a, b))
    run.template operator()<64, false>();
  else if (p.batch * ceil_div(p.m, 128) * ceil_div(p.n, 128) < multiprocessors)
    run.template operator()<64, true>();
  else
    run.template operator()<128, true>();
}

}  // namespace duet::DUET_DEVICE
