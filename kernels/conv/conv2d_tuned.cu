// SPDX-License-Identifier: Apache-2.0
// Convolution as a matrix product whose second operand, (taps and channels) x pixels, is never stored: blocks gather it
// from x while they multiply (implicit GEMM; Chetlur et al., arXiv:1410.0759). A block computes one tile of output
// channels x pixels: by register tiling in f32, or on the tensor cores for channels-last bf16 and f16 whose groups have
// a multiple of 8 channels.
#include "kernels/conv/geometry.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/tile_f32.cuh"
#include "kernels/gemm/tile_half.cuh"
#include "ops/conv/conv2d.h"

namespace duet::DUET_DEVICE {
namespace {

// Load this thread's four elements of each step (TileF32::Place). FetchFilter: four depths of one output channel; the
// filter is (group_k, depth) with depth contiguous. FetchPixels: four depths of one pixel where x has its channels
// last, else one depth of four pixels.
template <class Tile, class T>
struct FetchFilter {
  const T* row;
  int64_t depth;
  int deep;
  bool exists;
  __device__ FetchFilter(const Geometry& g, const T* filter, int64_t group, int64_t first) : depth(g.depth) {
    const auto place = Tile::place(true);
    deep = place.deep;
    exists = first + place.along < g.group_k;
    row = filter + (group * g.group_k + first + place.along) * g.depth;
  }
  __device__ __forceinline__ void operator()(int64_t step, float (&v)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int64_t d = step * Tile::kDepth + deep + e;
      v[e] = exists && d < depth ? float(row[d]) : 0;
    }
  }
};
template <class Tile, class T>
struct FetchPixels {
  const Geometry& g;
  const T* x;
  Geometry::Pixel pixel[4];
  int deep;
  __device__ FetchPixels(const Geometry& g, const T* x, int64_t group, int64_t first) : g(g), x(x) {
    const auto place = Tile::place(g.channels_last);
    deep = place.deep;
#pragma unroll
    for (int e = 0; e < 4; ++e) pixel[e] = g.pixel(first + place.along + (g.channels_last ? 0 : e), group);
  }
  __device__ __forceinline__ void operator()(int64_t step, float (&v)[4]) const {
    const int64_t d = step * Tile::kDepth + deep;
    Geometry::Tap tap = g.tap(d);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (g.channels_last && e > 0) tap = g.tap(d + e);
      const bool inside = d + (g.channels_last ? e : 0) < g.depth;
      const int64_t at = inside ? g.element(pixel[e], tap) : -1;
      v[e] = at >= 0 ? float(x[at]) : 0;
    }
  }
};

// One block of 256 threads per tile of kTile output channels by kTile pixels, in the order of Tiles, with groups as the
// batch. Shared memory: 16.5 or 17 KiB. Tensors have the contract's layout.
template <class T, int kTile>
__global__ void __launch_bounds__(256, 2) conv2d_kernel(const T* x, const T* filter, T* y, Geometry g, Tiles tiles) {
  using Tile = TileF32<kTile>;
  DUET_SHARED(float, panel_filter, [Tile::kLines][Tile::kPitch]);
  DUET_SHARED(float, panel_pixels, [Tile::kLines][Tile::kPitch]);
  const auto at = tiles.at(blockIdx.x);
  const int64_t k0 = at.row * kTile, p0 = at.col * kTile;

  float sum[Tile::kSide][Tile::kSide] = {};
  Tile::multiply((g.depth + Tile::kDepth - 1) / Tile::kDepth, true, g.channels_last,
                 FetchFilter<Tile, T>(g, filter, at.batch, k0), FetchPixels<Tile, T>(g, x, at.batch, p0), panel_filter,
                 panel_pixels, sum);

  // Write back.
#pragma unroll
  for (int j = 0; j < Tile::kSide; ++j) {
    const int64_t p = p0 + Tile::column(j);
    if (p >= g.pixels) continue;
#pragma unroll
    for (int i = 0; i < Tile::kSide; ++i) {
      const int64_t k = k0 + Tile::row(i);
      if (k < g.group_k) y[g.result(p, at.batch * g.group_k + k)] = T(sum[i][j]);
    }
  }
}

// One block of 128 threads per tile of 128 pixels by 128 output channels, in the order of Tiles, with groups as the
// batch. 64 KiB of dynamic shared memory. Channels are last and group_c is a multiple of 8, so that a chunk of 8 depths
// is 8 channels under one tap. x and filter are aligned to 16 bytes. pairs: two neighbouring channels of y are stored
// by one access.
template <class T>
__global__ void __launch_bounds__(TileHalf<T>::kThreads, 2)
    conv2d_half_kernel(const T* x, const T* filter, T* y, Geometry g, Tiles tiles, bool pairs) {
  using Tile = TileHalf<T>;
  DUET_DYN_SHARED(T, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t p0 = at.row * Tile::kTile, k0 = at.col * Tile::kTile;
  const T* rows = filter + at.batch * g.group_k * g.depth;

  // The pixels of this thread's chunks, the same in every step.
  Geometry::Pixel pixel[Tile::kChunksPerThread];
  int which = 0;
  Tile::template for_my_chunks<true>([&](int row, int) { pixel[which++] = g.pixel(p0 + row, at.batch); });
  const auto load_pixels = [&](T* panel, int64_t step) {
    int mine = 0;
    Tile::template for_my_chunks<true>([&](int row, int chunk) {
      const int64_t d = step * Tile::kDepth + chunk * 8;
      const int64_t from = d < g.depth ? g.element(pixel[mine], g.tap(d)) : -1;
      ++mine;
      Tile::fetch(panel + Panel<true>::offset(row, chunk), x + from, from >= 0 ? 8 : 0, true, x);
    });
  };
  const auto load_filter = [&](T* panel, int64_t step) {
    Tile::template for_my_chunks<true>([&](int row, int chunk) {
      const int64_t d = step * Tile::kDepth + chunk * 8, k = k0 + row;
      Tile::fetch(panel + Panel<true>::offset(row, chunk), rows + k * g.depth + d, k < g.group_k ? g.depth - d : 0,
                  true, filter);
    });
  };
  // Multiply.
  typename Tile::Sums sums = {};
  Tile::template multiply<false, true>((g.depth + Tile::kDepth - 1) / Tile::kDepth, load_pixels, load_filter, shared,
                                       sums);

  // Write back.
  for_my_pairs(sums, [&](int i, int j, float first, float second) {
    const int64_t p = p0 + i, k = k0 + j;
    if (p >= g.pixels || k >= g.group_k) return;
    T* to = y + p * g.k + at.batch * g.group_k + k;
    if (pairs) {
      store_pack(to, Pack<T, 2>{{T(first), T(second)}});
    } else {
      to[0] = T(first);
      if (k + 1 < g.group_k) to[1] = T(second);
    }
  });
}

Plan conv2d_tuned(const Conv2d& p, GpuContext& gpu) {
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  if (const char* reason = too_large(p)) return Unsupported{reason};
  const Geometry g = geometry(p);
  const bool empty = g.pixels == 0 || g.group_k == 0;

  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [g, empty, groups = p.groups, &gpu](Args t) {
      if (empty) return;
      const T *x = t[Conv2d::x].as<const T>(), *filter = t[Conv2d::filter].as<const T>();
      T* y = t[Conv2d::y].as<T>();
      const auto grid = [&](const Tiles& tiles, int threads, int64_t shared) {
        return Grid{.blocks = groups * tiles.down * tiles.across,
                    .threads = threads,
                    .shared_bytes = shared,
                    .stream = gpu.stream()};
      };
      if constexpr (sizeof(T) == 2) {
        if (g.channels_last && g.group_c % 8 == 0 && g.depth > 0 && aligned16(x, filter)) {
          const Tiles tiles{ceil_div(g.pixels, 128), ceil_div(g.group_k, 128)};
          const bool pairs = g.group_k % 2 == 0 && reinterpret_cast<uintptr_t>(y) % 4 == 0;
          return launch(conv2d_half_kernel<T>, grid(tiles, TileHalf<T>::kThreads, TileHalf<T>::kSharedBytes), x, filter,
                        y, g, tiles, pairs);
        }
      }
      const auto run = [&]<int kTile>() {
        const Tiles tiles{ceil_div(g.group_k, kTile), ceil_div(g.pixels, kTile)};
        launch(conv2d_kernel<T, kTile>, grid(tiles, 256, 0), x, filter, y, g, tiles);
      };
      if (groups * ceil_div(g.group_k, 128) * ceil_div(g.pixels, 128) < gpu.multiprocessors() || g.group_k <= 64)
        run.template operator()<64>();
      else
        run.template operator()<128>();
    };
  });
}
DUET_REGISTER(conv2d_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
