// SPDX-License-Identifier: Apache-2.0
// A product dw (k, c r s) = dy (k, pixels) x (pixels, c r s) whose second operand is gathered from x (implicit GEMM).
// The result is small and its sums run over all pixels of the batch, so there are few tiles: the sums are divided into
// parts, so that there are enough blocks for the whole GPU, and a second launch adds the parts in order (columns.cuh).
// A block computes one tile and part: by register tiling in f32, or on the tensor cores for channels-last bf16 and f16
// whose groups have multiples of 8 channels (mma.sync, or wgmma on Hopper).
#include <algorithm>

#include "kernels/conv/geometry.cuh"
#include "kernels/gemm/copy_panel.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/tile_f32.cuh"
#include "kernels/gemm/tile_half.cuh"
#include "kernels/gemm/tile_warpgroup.cuh"
#include "kernels/reduction/columns.cuh"
#include "ops/conv/conv2d_backward.h"

namespace duet::DUET_DEVICE {
namespace {

// The pixels [first, last) of a block's part of the sums; both panels are 0 outside.
struct Part {
  int64_t first, last;
};
struct Parts {
  int64_t count, pixels;  // pixels: of a part, a multiple of every tile's depth
  __device__ __forceinline__ Part at(int64_t part, int64_t all) const {
    return {part * pixels, min(all, (part + 1) * pixels)};
  }
};

// Load this thread's four elements of each step, in the order of the steps. Where channels are last (kLast): four
// channels (FetchGradient) or depths (FetchInput) of one pixel that are neighbours (Tile::place); else four that are
// Tile::kApart apart, so that a warp reads neighbouring pixels (Tile::place_apart). step: the digits of Tile::kDepth
// pixels. packs: with kLast, whether four channels may be loaded together, and four depths lie under one tap.
template <class Tile, bool kLast>
__device__ __forceinline__ typename Tile::Place place_of() {
  return kLast ? Tile::place(false) : Tile::place_apart();
}
template <class Tile, bool kLast>
inline constexpr int kNext = kLast ? 1 : Tile::kApart;  // from one of the four to the next

// How many of the four places from `first` on lie below `size`.
template <int kStep>
__device__ __forceinline__ int places_below(int64_t size, int64_t first) {
  return static_cast<int>(max(int64_t{0}, min(int64_t{4}, (size - first + kStep - 1) / kStep)));
}

template <class Tile, class T, bool kLast>
struct FetchGradient {
  const Geometry& g;
  Digits step, place;  // place: the pixel of the next step
  int left;            // pixels of the part from there on
  int channels;        // that exist, of the four
  const T* from;       // dy at this thread's first channel; with kLast at the pixel
  int64_t next;        // elements from one of the four to the next
  bool packs;
  __device__ FetchGradient(const Geometry& g, Digits step, const T* dy, Part part, int64_t group, int64_t first,
                           bool packs)
      : g(g), step(step), packs(packs) {
    const auto mine = place_of<Tile, kLast>();
    const int64_t channel = group * g.group_k + first + mine.along, pixel = part.first + mine.deep;
    const int64_t plane = int64_t{g.ho} * g.wo;
    place = g.place_at(pixel);
    left = static_cast<int>(part.last - pixel);
    channels = places_below<kNext<Tile, kLast>>(g.group_k, first + mine.along);
    from = dy + (kLast ? pixel * g.k + channel : channel * plane);
    next = kNext<Tile, kLast> * (kLast ? 1 : plane);
  }
  __device__ __forceinline__ void operator()(int64_t, float (&v)[4]) {
    if (kLast && packs) {
      Pack<T, 4> pack{};
      if (left > 0 && channels > 0) pack = load_pack<4>(from);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = float(pack.at[e]);
    } else {
      const T* pixel = from;
      if constexpr (!kLast) pixel += int64_t{place.slow} * g.image_y + (place.middle * g.wo + place.fast);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = left > 0 && e < channels ? float(pixel[e * next]) : 0;
    }
    if constexpr (kLast)
      from += Tile::kDepth * g.k;
    else
      place = g.places.add(place, step);
    left -= Tile::kDepth;
  }
};
template <class Tile, class T, bool kLast>
struct FetchInput {
  const Geometry& g;
  const T* x;  // from the group's first channel on
  Digits step, place;
  int left;  // as in FetchGradient
  Geometry::Shift shift[4];
  bool packs;
  __device__ FetchInput(const Geometry& g, Digits step, const T* x, Part part, int64_t group, int64_t first, bool packs)
      : g(g), x(x + g.first_channel<kLast>(group)), step(step), packs(packs) {
    const auto mine = place_of<Tile, kLast>();
    const int64_t d = first + mine.along, pixel = part.first + mine.deep;
    place = g.place_at(pixel);
    left = static_cast<int>(part.last - pixel);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int64_t depth = d + e * kNext<Tile, kLast>;
      shift[e] = g.shift<kLast>(g.tap(min(depth, g.depth - 1)));
      if (depth >= g.depth) shift[e].down = 1 << 30;  // outside of x
    }
  }
  __device__ __forceinline__ void operator()(int64_t, float (&v)[4]) {
    const Geometry::Window window = g.window<kLast>(place);
    if (kLast && packs) {
      Pack<T, 4> pack{};
      if (left > 0 && g.inside(window, shift[0])) pack = load_pack<4>(x + window.origin + shift[0].elements);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = float(pack.at[e]);
    } else {
      const T* pixel = x + window.origin;
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = left > 0 && g.inside(window, shift[e]) ? float(pixel[shift[e].elements]) : 0;
    }
    place = g.places.add(place, step);
    left -= Tile::kDepth;
  }
};

// One block of 256 threads per tile of kTile output channels by kTile depths, in the order of Tiles, with groups as the
// batch (grid x), and part (grid y). Shared memory: 16.5 or 17 KiB. out: (parts, k, depth). kLast, step, packs: see
// FetchGradient.
template <class T, class Out, int kTile, bool kLast>
__global__ void __launch_bounds__(256, 2)
    filter_kernel(const T* x, const T* dy, Out* out, Geometry g, Digits step, Tiles tiles, Parts parts, bool packs) {
  using Tile = TileF32<kTile>;
  DUET_SHARED(float, panel_gradient, [Tile::kLines][Tile::kPitch]);
  DUET_SHARED(float, panel_input, [Tile::kLines][Tile::kPitch]);
  const auto at = tiles.at(blockIdx.x);
  const int64_t k0 = at.row * kTile, d0 = at.col * kTile;
  const Part part = parts.at(blockIdx.y, g.pixels);

  float sum[Tile::kSide][Tile::kSide] = {};
  Tile::template multiply<!kLast>((part.last - part.first + Tile::kDepth - 1) / Tile::kDepth, false, false,
                                  FetchGradient<Tile, T, kLast>(g, step, dy, part, at.batch, k0, packs),
                                  FetchInput<Tile, T, kLast>(g, step, x, part, at.batch, d0, packs), panel_gradient,
                                  panel_input, sum);

  // Write back.
  out += (int64_t{blockIdx.y} * g.k + at.batch * g.group_k) * g.depth;
#pragma unroll
  for (int i = 0; i < Tile::kSide; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kSide; ++j) {
      const int64_t k = k0 + Tile::row(i), d = d0 + Tile::column(j);
      if (k < g.group_k && d < g.depth) out[k * g.depth + d] = Out(sum[i][j]);
    }
}

// How many pixels two neighbouring chunks of a thread are apart, in filter_half_kernel.
template <class T>
constexpr int kHalfRows = TileHalf<T>::kThreads / Panel<false>::kChunks;

// One block of 128 threads per tile of 128 output channels by 128 depths and part, with the same grid. 64 KiB of
// dynamic shared memory. Channels are last, and group_c and group_k are multiples of 8, so that a chunk of 8 depths is
// 8 channels under one tap. x and dy are aligned to 16 bytes. rows: the digits of kHalfRows pixels.
template <class T>
__global__ void __launch_bounds__(TileHalf<T>::kThreads, 2)
    filter_half_kernel(const T* x, const T* dy, float* out, Geometry g, Digits rows, Tiles tiles, Parts parts) {
  using Tile = TileHalf<T>;
  DUET_DYN_SHARED(T, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t k0 = at.row * Tile::kTile, d0 = at.col * Tile::kTile;
  const Part part = parts.at(blockIdx.y, g.pixels);

  const auto load_gradient = [&](T* panel, int64_t step) {
    Tile::template for_my_chunks<false>([&](int row, int chunk) {
      const int64_t p = part.first + step * Tile::kDepth + row, k = k0 + chunk * 8;
      Tile::fetch(panel + Panel<false>::offset(row, chunk), dy + p * g.k + at.batch * g.group_k + k,
                  p < part.last ? g.group_k - k : 0, true, dy);
    });
  };
  // This thread's chunks are under one tap, and their pixels are kRows apart, from one step to the next as well.
  constexpr int kChunks = Panel<false>::kChunks, kRows = kHalfRows<T>;
  static_assert(kRows * Tile::kChunksPerThread == Tile::kDepth);
  const int64_t d = d0 + static_cast<int>(threadIdx.x) % kChunks * 8;
  const int64_t first = part.first + static_cast<int>(threadIdx.x) / kChunks;
  const Geometry::Shift shift = g.shift<true>(g.tap(d < g.depth ? d : 0));
  const T* channels = x + g.first_channel<true>(at.batch);
  Digits place = g.place_at(first);
  int left = d < g.depth ? static_cast<int>(part.last - first) : 0;  // pixels of the part from there on
  // Called once for each step, in order.
  const auto load_input = [&](T* panel, int64_t) {
    Tile::template for_my_chunks<false>([&](int row, int chunk) {
      const Geometry::Window window = g.window<true>(place);
      const bool inside = left > 0 && g.inside(window, shift);
      Tile::fetch(panel + Panel<false>::offset(row, chunk), channels + window.origin + shift.elements, inside ? 8 : 0,
                  true, x);
      place = g.places.add(place, rows);
      left -= kRows;
    });
  };

  // Multiply.
  typename Tile::Sums sums = {};
  Tile::template multiply<true, false>((part.last - part.first + Tile::kDepth - 1) / Tile::kDepth, load_gradient,
                                       load_input, shared, sums);

  // Write back.
  out += (int64_t{blockIdx.y} * g.k + at.batch * g.group_k) * g.depth;
  for_my_pairs(sums, [&](int i, int j, float first, float second) {
    const int64_t k = k0 + i, d = d0 + j;
    if (k < g.group_k && d < g.depth)
      store_pack(out + k * g.depth + d, Pack<float, 2>{{first, second}});  // depth is even
  });
}

// The same on Hopper, by wgmma: one block of 384 threads per tile of 128 output channels by 128 depths, and part.
template <class T>
__global__ void __launch_bounds__(TileWarpgroup<T, 128>::kThreads, 1)
    filter_warpgroup_kernel(const T* x, const T* dy, float* out, Geometry g, Tiles tiles, Parts parts) {
  using Tile = TileWarpgroup<T, 128>;
  using Gradient = typename Tile::template PanelA<false>;
  using Input = typename Tile::template PanelB<false>;
  using Share = typename Tile::template Share<Input>;
  DUET_DYN_SHARED(T, shared);
  const auto at = tiles.at(blockIdx.x);
  const int64_t k0 = at.row * Tile::kRows, d0 = at.col * Tile::kColumns;
  const Part part = parts.at(blockIdx.y, g.pixels);

  // This thread's chunks are under the same taps in every step.
  constexpr int kChunks = Input::kChunks / Share::kChunkStep;
  const Share share;
  Geometry::Shift shift[kChunks];
#pragma unroll
  for (int j = 0; j < kChunks; ++j) {
    const int64_t d = d0 + (share.chunk + j * Share::kChunkStep) * 8;
    shift[j] = g.shift<true>(g.tap(d < g.depth ? d : 0));
    if (d >= g.depth) shift[j].down = 1 << 30;  // outside of x
  }
  const T* channels = x + g.first_channel<true>(at.batch);
  const auto load_input = [&](T* panel, int64_t step) {
#pragma unroll 4
    for (int i = 0; i < Input::kLines; i += Share::kLineStep) {
      const int64_t p = part.first + step * Tile::kDepth + share.line + i;
      const bool exists = p < part.last;
      const Geometry::Window window = g.window<true>(g.place_at(exists ? p : 0));
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        T* to = panel + Input::offset(share.line + i, share.chunk + j * Share::kChunkStep);
        if (exists && g.inside(window, shift[j]))
          cp_async16(to, channels + window.origin + shift[j].elements);
        else
          store_pack(to, Pack<T>{});
      }
    }
  };
  // dy from the part's first pixel and the group's first channel on.
  const HalfOperand<T> gradient{dy + part.first * g.k + at.batch * g.group_k, 0, g.group_k, g.k, true};
  typename Tile::Sums sums = {};
  Tile::template multiply<true, false>((part.last - part.first + Tile::kDepth - 1) / Tile::kDepth,
                                       CopyPanel<T, Tile, Gradient, false>(gradient, 0, k0, part.last - part.first),
                                       load_input, shared, sums);

  // Write back. depth is a multiple of 8.
  out += (int64_t{blockIdx.y} * g.k + at.batch * g.group_k) * g.depth;
  Tile::for_my_results(sums, shared, [&](int i, int j, const float(&sum)[8]) {
    const int64_t k = k0 + i, d = d0 + j;
    if (k >= g.group_k || d >= g.depth) return;
#pragma unroll
    for (int e = 0; e < 8; e += 4)
      store_pack(out + k * g.depth + d + e, Pack<float>{{sum[e], sum[e + 1], sum[e + 2], sum[e + 3]}});
  });
}

Plan conv2d_backward_filter_tuned(const Conv2dBackwardFilter& problem, GpuContext& gpu) {
  using P = Conv2dBackwardFilter;
  const Conv2d& p = problem.conv;
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  if (const char* reason = too_large(p)) return Unsupported{reason};
  const Geometry g = geometry(p);
  const int64_t elements = g.k * g.depth;
  if (elements == 0) return [](Args) {};

  return for_float(p.dtype, [&]<class T>() -> Plan {
    const bool half = sizeof(T) == 2 && g.channels_last && g.group_c % 8 == 0 && g.group_k % 8 == 0;
    const auto tiles_of = [&](int64_t side) { return Tiles{ceil_div(g.group_k, side), ceil_div(g.depth, side)}; };
    const auto blocks_of = [&](int64_t side) { return p.groups * tiles_of(side).down * tiles_of(side).across; };
    // Two blocks for every multiprocessor, but no part shorter than kMinPixels pixels. Large tiles where those give a
    // block to each, and where less than a third of them would be empty.
    constexpr int64_t kMinPixels = 256, kUnit = 64;
    const bool large = blocks_of(128) * std::max<int64_t>(1, g.pixels / kMinPixels) >= gpu.multiprocessors() &&
                       fills_tiles_of_128(blocks_of(64), blocks_of(128));
    const int64_t side = half || large ? 128 : 64;
    const int64_t wanted = std::min(ceil_div(2 * gpu.multiprocessors(), blocks_of(side)), g.pixels / kMinPixels);
    const int64_t size = ceil_div(ceil_div(g.pixels, std::max<int64_t>(1, wanted)), kUnit) * kUnit;
    const Parts parts{std::max<int64_t>(1, ceil_div(g.pixels, std::max<int64_t>(1, size))), size};
    const bool direct = parts.count == 1 && !half;
    WorkspaceLayout workspace;
    const auto partial = workspace.add<float>(direct ? 0 : parts.count * elements);
    const Tiles tiles = tiles_of(side);
    const Grid grid{.blocks = {blocks_of(side), parts.count}, .threads = 256, .stream = gpu.stream()};
    return Plan([=, &gpu](Args t) {
             const T *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
             T* dw = t[P::dw].as<T>();
             const auto run = [&]<class Out>(Out* out) {
               const auto launch_tiles = [&]<int kTile, bool kLast>() {
                 const Digits step = g.places.digits(TileF32<kTile>::kDepth);
                 const bool packs = g.group_c % 4 == 0 && g.group_k % 4 == 0 && aligned16(x, dy);
                 launch(filter_kernel<T, Out, kTile, kLast>, grid, x, dy, out, g, step, tiles, parts, packs);
               };
               if (side == 64)
                 g.channels_last ? launch_tiles.template operator()<64, true>()
                                 : launch_tiles.template operator()<64, false>();
               else
                 g.channels_last ? launch_tiles.template operator()<128, true>()
                                 : launch_tiles.template operator()<128, false>();
             };
             if (direct) return run(dw);
             float* out = t.workspace(partial);
             bool done = false;
             if constexpr (sizeof(T) == 2) {
               if (half && aligned16(x, dy) && takes_warpgroups(gpu.capability(), parts.pixels)) {
                 using Tile = TileWarpgroup<T, 128>;
                 Grid wide = grid;
                 wide.threads = Tile::kThreads;
                 wide.shared_bytes = Tile::kSharedBytes;
                 launch(filter_warpgroup_kernel<T>, wide, x, dy, out, g, tiles, parts);
                 done = true;
               } else if (half && aligned16(x, dy)) {
                 Grid narrow = grid;
                 narrow.threads = TileHalf<T>::kThreads;
                 narrow.shared_bytes = TileHalf<T>::kSharedBytes;
                 launch(filter_half_kernel<T>, narrow, x, dy, out, g, g.places.digits(kHalfRows<T>), tiles, parts);
                 done = true;
               }
             }
             if (!done) run(out);
             launch_add_parts<1>(grid.stream, out, parts.count, elements, StoreSum<T>{dw});
           })
        .with(half ? "tensor cores" : "f32 tiles", std::move(workspace));
  });
}
DUET_REGISTER(conv2d_backward_filter_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
