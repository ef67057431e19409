// SPDX-License-Identifier: Apache-2.0
// conv2d and conv2d_bias: convolution as a matrix product whose second operand, (taps and channels) x pixels, is never
// stored: blocks gather it from x while they multiply (implicit GEMM; Chetlur et al., arXiv:1410.0759). A block
// computes one tile of output channels x pixels: by register tiling in f32, or on the tensor cores for channels-last
// bf16 and f16 whose groups have a multiple of 8 channels (mma.sync, or wgmma on Hopper). Bias and relu are applied
// before a tile is stored.
#include "kernels/conv/copy_windows.cuh"
#include "kernels/conv/geometry.cuh"
#include "kernels/gemm/copy_panel.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/tile_f32.cuh"
#include "kernels/gemm/tile_half.cuh"
#include "kernels/gemm/tile_warpgroup.cuh"
#include "ops/conv/conv2d_bias.h"

namespace duet::DUET_DEVICE {
namespace {

// Load this thread's four elements of each step, in the order of the steps (TileF32::Place). FetchFilter: four depths
// of one output channel; the filter is (group_k, depth) with depth contiguous.
template <class Tile, class T>
struct FetchFilter {
  const T* next;  // of the next step
  int left;       // depths from there on; 0 where the channel does not exist
  __device__ FetchFilter(const Geometry& g, const T* filter, int64_t group, int64_t first) {
    const auto place = Tile::place(true);
    next = filter + (group * g.group_k + first + place.along) * g.depth + place.deep;
    left = first + place.along < g.group_k ? static_cast<int>(g.depth) - place.deep : 0;
  }
  __device__ __forceinline__ void operator()(int64_t, float (&v)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) v[e] = e < left ? float(next[e]) : 0;
    next += Tile::kDepth;
    left -= Tile::kDepth;
  }
};
// With kLast, where x has its channels last, four depths of one pixel; else one depth of four pixels. step: the digits
// of Tile::kDepth. packs: with kLast, whether four channels lie under one tap and may be loaded together.
template <class Tile, class T, bool kLast>
struct FetchPixels {
  static constexpr int kPixels = kLast ? 1 : 4;
  const Geometry& g;
  const T* from;       // the first pixel's element under the filter's first tap, as
                       // if there were no padding
  Digits step, depth;  // depth: the first one of the next step
  int left;            // depths from there on
  int ahead[kPixels];  // elements from the first pixel
  int row[kPixels], col[kPixels];
  bool packs;
  __device__ FetchPixels(const Geometry& g, Digits step, const T* x, int64_t group, int64_t first, bool packs)
      : g(g), step(step), packs(packs) {
    const auto place = Tile::place(kLast);
    depth = g.digits_at<kLast>(place.deep);
    left = static_cast<int>(g.depth) - place.deep;
    const int64_t origin = g.window<kLast>(first + place.along, group).origin;
    from = x + origin;
#pragma unroll
    for (int e = 0; e < kPixels; ++e) {
      const Geometry::Window window = g.window<kLast>(first + place.along + e, group);
      ahead[e] = static_cast<int>(window.origin - origin);
      row[e] = window.row;
      col[e] = window.col;
    }
  }
  __device__ __forceinline__ bool inside(int pixel, const Geometry::Shift& shift) const {
    return g.inside({0, row[pixel], col[pixel]}, shift);
  }
  __device__ __forceinline__ void operator()(int64_t, float (&v)[4]) {
    Digits now = depth;
    Geometry::Shift shift = g.shift<kLast>(Geometry::tap_of<kLast>(now));
    if (kLast && packs) {
      Pack<T, 4> pack{};
      if (left > 0 && inside(0, shift)) pack = load_pack<4>(from + shift.elements);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = float(pack.at[e]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (kLast && e > 0) {
          now = g.depths.add(now, g.one_depth);
          shift = g.shift<kLast>(Geometry::tap_of<kLast>(now));
        }
        const int pixel = kLast ? 0 : e;
        v[e] = left > (kLast ? e : 0) && inside(pixel, shift) ? float(from[ahead[pixel] + shift.elements]) : 0;
      }
    }
    depth = g.depths.add(depth, step);
    left -= Tile::kDepth;
  }
};

// A sum with its bias, where there is one, and relu.
template <class T>
__device__ __forceinline__ float activated(float sum, const T* bias, int64_t channel, bool relu) {
  if (bias) sum += float(bias[channel]);
  return relu ? fmaxf(sum, 0) : sum;
}

// One block of 256 threads per tile of kTile output channels by kTile pixels, in the order of Tiles, with groups as the
// batch. Shared memory: 16.5 or 17 KiB. Tensors have the contract's layout, kLast: with channels last; bias is null
// where there is none. step, packs: see FetchPixels.
template <class T, int kTile, bool kLast>
__global__ void __launch_bounds__(256, 2) conv2d_kernel(const T* x, const T* filter, const T* bias, T* y, Geometry g,
                                                        Digits step, Tiles tiles, bool packs, bool relu) {
  using Tile = TileF32<kTile>;
  DUET_SHARED(float, panel_filter, [Tile::kLines][Tile::kPitch]);
  DUET_SHARED(float, panel_pixels, [Tile::kLines][Tile::kPitch]);
  const auto at = tiles.at(blockIdx.x);
  const int64_t k0 = at.row * kTile, p0 = at.col * kTile;

  float sum[Tile::kSide][Tile::kSide] = {};
  Tile::multiply((g.depth + Tile::kDepth - 1) / Tile::kDepth, true, kLast,
                 FetchFilter<Tile, T>(g, filter, at.batch, k0),
                 FetchPixels<Tile, T, kLast>(g, step, x, at.batch, p0, packs), panel_filter, panel_pixels, sum);

  // Write back.
#pragma unroll
  for (int j = 0; j < Tile::kSide; ++j) {
    const int64_t p = p0 + Tile::column(j);
    if (p >= g.pixels) continue;
#pragma unroll
    for (int i = 0; i < Tile::kSide; ++i) {
      const int64_t k = k0 + Tile::row(i), channel = at.batch * g.group_k + k;
      if (k < g.group_k) y[g.result<kLast>(p, channel)] = T(activated(sum[i][j], bias, channel, relu));
    }
  }
}

// One block of 128 threads per tile of 128 pixels by 128 output channels, in the order of Tiles, with groups as the
// batch. 64 KiB of dynamic shared memory. Channels are last and group_c is a multiple of 8, so that a chunk of 8 depths
// is 8 channels under one tap. x and filter are aligned to 16 bytes. pairs: two neighbouring channels of y are stored
// by one access.
template <class T>
__global__ void __launch_bounds__(TileHalf<T>::kThreads, 2)
    conv2d_half_kernel(const T* x, const T* filter, const T* bias, T* y, Geometry g, Digits step, Tiles tiles,
                       bool pairs, bool relu) {
  using Tile = TileHalf<T>;
  DUET_DYN_SHARED(T, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t p0 = at.row * Tile::kTile, k0 = at.col * Tile::kTile;
  const T* rows = filter + at.batch * g.group_k * g.depth;

  // This thread's chunks are under the same tap in every step, which moves on by Tile::kDepth, and have the same
  // pixels.
  constexpr int kChunks = Panel<true>::kChunks;
  static_assert(Tile::kThreads % kChunks == 0);
  const int deep = static_cast<int>(threadIdx.x) % kChunks * 8;
  Digits depth = g.digits_at<true>(deep);
  int left = static_cast<int>(g.depth) - deep;
  Geometry::Window window[Tile::kChunksPerThread];
  int which = 0;
  Tile::template for_my_chunks<true>([&](int row, int) { window[which++] = g.window<true>(p0 + row, at.batch); });
  // Called once for each step, in order.
  const auto load_pixels = [&](T* panel, int64_t) {
    const Geometry::Shift shift = g.shift<true>(Geometry::tap_of<true>(depth));
    int mine = 0;
    Tile::template for_my_chunks<true>([&](int row, int chunk) {
      const bool inside = left > 0 && g.inside(window[mine], shift);
      Tile::fetch(panel + Panel<true>::offset(row, chunk), x + window[mine].origin + shift.elements, inside ? 8 : 0,
                  true, x);
      ++mine;
    });
    depth = g.depths.add(depth, step);
    left -= Tile::kDepth;
  };
  const auto load_filter = [&](T* panel, int64_t index) {
    Tile::template for_my_chunks<true>([&](int row, int chunk) {
      const int64_t d = index * Tile::kDepth + chunk * 8, k = k0 + row;
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
    const int64_t p = p0 + i, k = k0 + j, channel = at.batch * g.group_k + k;
    if (p >= g.pixels || k >= g.group_k) return;
    T* to = y + p * g.k + channel;
    first = activated(first, bias, channel, relu);
    if (k + 1 < g.group_k) second = activated(second, bias, channel + 1, relu);
    if (pairs) {
      store_pack(to, Pack<T, 2>{{T(first), T(second)}});
    } else {
      to[0] = T(first);
      if (k + 1 < g.group_k) to[1] = T(second);
    }
  });
}

// The same on Hopper, by wgmma: one block of 384 threads per tile of 128 pixels by kColumns output channels. group_k is
// a multiple of 8, and y is aligned to 16 bytes, too.
template <class T, int kColumns>
__global__ void __launch_bounds__(TileWarpgroup<T, kColumns>::kThreads, 1)
    conv2d_warpgroup_kernel(const T* x, const T* filter, const T* bias, T* y, Geometry g, Tiles tiles, bool relu) {
  using Tile = TileWarpgroup<T, kColumns>;
  using Pixels = typename Tile::template PanelA<true>;
  using Filter = typename Tile::template PanelB<true>;
  DUET_DYN_SHARED(T, shared);
  DUET_SHARED(Geometry::Window, windows, [Tile::kRows]);
  const auto at = tiles.at(blockIdx.x);
  const int64_t p0 = at.row * Tile::kRows, k0 = at.col * kColumns;
  if (threadIdx.x < Tile::kRows) windows[threadIdx.x] = g.window<true>(p0 + threadIdx.x, at.batch);
  __syncthreads();

  const auto load_pixels = [&](T* panel, int64_t step) {
    copy_windows<Tile, Pixels>(
        panel, windows, step, g.depth, g, [&](int64_t d) { return g.shift<true>(g.tap(d)); },
        [&](const Geometry::Shift& shift) { return x + shift.elements; });
  };
  const HalfOperand<T> rows{filter, int64_t{g.group_k} * g.depth, g.group_k, g.depth, true};
  typename Tile::Sums sums = {};
  Tile::template multiply<false, true>((g.depth + Tile::kDepth - 1) / Tile::kDepth, load_pixels,
                                       CopyPanel<T, Tile, Filter, true>(rows, at.batch, k0, g.depth), shared, sums);

  // Write back.
  Tile::for_my_results(sums, shared, [&](int i, int j, const float(&sum)[8]) {
    const int64_t p = p0 + i, k = k0 + j, channel = at.batch * g.group_k + k;
    if (p >= g.pixels || k >= g.group_k) return;
    Pack<T> pack;
#pragma unroll
    for (int e = 0; e < 8; ++e) pack.at[e] = T(activated(sum[e], bias, channel + e, relu));
    store_pack(y + p * g.k + channel, pack);
  });
}

Plan plan(const Conv2d& p, const Conv2dLayer& layer, GpuContext& gpu) {
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  if (const char* reason = too_large(p)) return Unsupported{reason};
  const Geometry g = geometry(p);
  const bool empty = g.pixels == 0 || g.group_k == 0;

  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [g, empty, groups = p.groups, layer, &gpu](Args t) {
      if (empty) return;
      const T *x = t[Conv2d::x].as<const T>(), *filter = t[Conv2d::filter].as<const T>();
      const T* bias = layer.bias ? t[*layer.bias].as<const T>() : nullptr;
      T* y = t[layer.y].as<T>();
      const auto grid = [&](const Tiles& tiles, int threads, int64_t shared) {
        return Grid{.blocks = groups * tiles.down * tiles.across,
                    .threads = threads,
                    .shared_bytes = shared,
                    .stream = gpu.stream()};
      };
      if constexpr (sizeof(T) == 2) {
        if (g.channels_last && g.group_c % 8 == 0 && g.depth > 0 && aligned16(x, filter)) {
          if (takes_warpgroups(gpu.capability(), g.depth) && g.group_k % 8 == 0 && aligned16(y)) {
            const auto by_columns = [&]<int kColumns>() {
              using Tile = TileWarpgroup<T, kColumns>;
              const Tiles tiles{ceil_div(g.pixels, Tile::kRows), ceil_div(g.group_k, kColumns)};
              launch(conv2d_warpgroup_kernel<T, kColumns>, grid(tiles, Tile::kThreads, Tile::kSharedBytes), x, filter,
                     bias, y, g, tiles, layer.relu);
            };
            return g.group_k <= 64 ? by_columns.template operator()<64>() : by_columns.template operator()<128>();
          }
          const Tiles tiles{ceil_div(g.pixels, 128), ceil_div(g.group_k, 128)};
          const bool pairs = g.group_k % 2 == 0 && reinterpret_cast<uintptr_t>(y) % 4 == 0;
          return launch(conv2d_half_kernel<T>, grid(tiles, TileHalf<T>::kThreads, TileHalf<T>::kSharedBytes), x, filter,
                        bias, y, g, g.depths.digits(TileHalf<T>::kDepth), tiles, pairs, layer.relu);
        }
      }
      const auto run = [&]<int kTile>() {
        const Tiles tiles{ceil_div(g.group_k, kTile), ceil_div(g.pixels, kTile)};
        const Digits step = g.depths.digits(TileF32<kTile>::kDepth);
        const bool packs = g.group_c % 4 == 0 && aligned16(x);
        if (g.channels_last)
          launch(conv2d_kernel<T, kTile, true>, grid(tiles, 256, 0), x, filter, bias, y, g, step, tiles, packs,
                 layer.relu);
        else
          launch(conv2d_kernel<T, kTile, false>, grid(tiles, 256, 0), x, filter, bias, y, g, step, tiles, false,
                 layer.relu);
      };
      if (groups * ceil_div(g.group_k, 128) * ceil_div(g.pixels, 128) < gpu.multiprocessors() || g.group_k <= 64)
        run.template operator()<64>();
      else
        run.template operator()<128>();
    };
  });
}

Plan conv2d_tuned(const Conv2d& p, GpuContext& gpu) { return plan(p, kPlainConv2d, gpu); }
Plan conv2d_bias_tuned(const Conv2dBias& p, GpuContext& gpu) { return plan(p.conv, p.layer(), gpu); }
DUET_REGISTER(conv2d_tuned);
DUET_REGISTER(conv2d_bias_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
