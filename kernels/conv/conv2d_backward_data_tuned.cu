// SPDX-License-Identifier: Apache-2.0
// A product dx (c, pixels) = w' (c, k r s) dy (k r s, pixels) whose second operand is gathered from dy (implicit GEMM).
// Input pixels whose row and column have the same remainders modulo the strides are reached by the same taps. Each such
// phase is a launch of its own, so that the zeros between strides are not multiplied. A block computes one tile of
// input channels x pixels: by register tiling in f32, or on the tensor cores for channels-last bf16 and f16 whose
// groups have multiples of 8 channels.
#include <algorithm>
#include <vector>

#include "kernels/conv/geometry.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/tile_f32.cuh"
#include "kernels/gemm/tile_half.cuh"
#include "ops/conv/conv2d_backward.h"

namespace duet::DUET_DEVICE {
namespace {

// One axis of a phase: the positions phase, phase + stride, ... of x, and the taps first, first + step, ... that reach
// them. The t-th of these taps connects position phase + i * stride of x with position i + offset - t * offset_step of
// dy.
struct Axis {
  int positions, taps, phase, stride, first, step, offset, offset_step;
};
Axis axis(int64_t phase, int64_t size, int64_t pad, int64_t taps, int64_t dil, int64_t stride) {
  Axis a{};
  a.positions = static_cast<int>(ceil_div(size - phase, stride));
  a.phase = static_cast<int>(phase);
  a.stride = static_cast<int>(stride);
  int64_t step = 1;
  while (step * dil % stride != 0) ++step;
  for (int64_t t = 0; t < std::min(step, taps); ++t)
    if ((phase + pad - t * dil) % stride == 0) {
      a.taps = static_cast<int>(ceil_div(taps - t, step));
      a.first = static_cast<int>(t);
      a.step = static_cast<int>(step);
      a.offset_step = static_cast<int>(step * dil / stride);
      a.offset = static_cast<int>((phase + pad - t * dil) / stride);
    }
  return a;
}

struct Phase {
  Geometry g;
  Axis down, across;
  int64_t pixels, depth;  // n * positions; group_k * taps
  Divider by_group_k, by_taps_across, by_taps, by_positions_down, by_positions_across;
  Phase(const Geometry& g, const Axis& down, const Axis& across, int64_t pixels, int64_t depth)
      : g(g),
        down(down),
        across(across),
        pixels(pixels),
        depth(depth),
        by_group_k(g.group_k),
        by_taps_across(across.taps),
        by_taps(int64_t{down.taps} * across.taps),
        by_positions_down(down.positions),
        by_positions_across(across.positions) {}

  struct Tap {
    int64_t filter;  // the element of the group's filters for the first input channel
    int k, row, col;
  };
  // The output channel and tap at depth d. Depths have the order (k, r, s), or with channels_last (r, s, k).
  __device__ __forceinline__ Tap tap(int64_t d) const {
    auto rest = static_cast<uint32_t>(d);
    const auto within = static_cast<uint32_t>(g.channels_last ? by_group_k.split(rest) : by_taps.split(rest));
    const uint32_t k = g.channels_last ? within : rest;
    uint32_t rs = g.channels_last ? rest : within;
    const int ts = by_taps_across.split(rs), tr = static_cast<int>(rs);
    const int64_t rs_of_filter = int64_t{down.first + tr * down.step} * g.s + across.first + ts * across.step;
    const int64_t plane = int64_t{g.r} * g.s;
    return {g.channels_last ? (k * plane + rs_of_filter) * g.group_c : k * plane * g.group_c + rs_of_filter,
            static_cast<int>(k), down.offset - tr * down.offset_step, across.offset - ts * across.offset_step};
  }
  struct Pixel {
    int64_t image;  // -1: the pixel does not exist
    int row, col;
  };
  __device__ __forceinline__ Pixel pixel(int64_t p) const {
    if (p >= pixels) return {-1, 0, 0};
    auto image = static_cast<uint32_t>(p);
    const int col = by_positions_across.split(image), row = by_positions_down.split(image);
    return {int64_t{image}, row, col};
  }
  // The element of dy that a tap connects with a pixel, or -1 outside dy.
  __device__ __forceinline__ int64_t element(const Pixel& p, const Tap& t, int64_t group) const {
    const int i = p.row + t.row, j = p.col + t.col;
    if (p.image < 0 || i < 0 || i >= g.ho || j < 0 || j >= g.wo) return -1;
    const int64_t k = group * g.group_k + t.k;
    return g.channels_last ? ((p.image * g.ho + i) * g.wo + j) * g.k + k : ((p.image * g.k + k) * g.ho + i) * g.wo + j;
  }
  // The element of dx at a pixel.
  __device__ __forceinline__ int64_t result(const Pixel& p, int64_t channel) const {
    const int64_t row = down.phase + int64_t{p.row} * down.stride, col = across.phase + int64_t{p.col} * across.stride;
    return g.channels_last ? ((p.image * g.h + row) * g.w + col) * g.c + channel
                           : ((p.image * g.c + channel) * g.h + row) * g.w + col;
  }
};

// Load this thread's four elements of each step (TileF32::Place). FetchFilter: four channels of one depth with channels
// last, else four depths of one channel. FetchGradient: four depths of one pixel with channels last, else one depth of
// four pixels.
template <class Tile, class T>
struct FetchFilter {
  const Phase& phase;
  const T* filter;  // of the group
  int64_t channel;
  int deep;
  __device__ FetchFilter(const Phase& phase, const T* filter, int64_t group, int64_t first) : phase(phase) {
    const auto place = Tile::place(!phase.g.channels_last);
    deep = place.deep;
    channel = first + place.along;
    this->filter = filter + group * phase.g.group_k * phase.g.depth;
  }
  __device__ __forceinline__ void operator()(int64_t step, float (&v)[4]) const {
    const Geometry& g = phase.g;
    const int64_t d = step * Tile::kDepth + deep;
    Phase::Tap tap{};
    if (d < phase.depth) tap = phase.tap(d);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!g.channels_last && e > 0 && d + e < phase.depth) tap = phase.tap(d + e);
      const int64_t c = channel + (g.channels_last ? e : 0);
      const bool inside = c < g.group_c && d + (g.channels_last ? 0 : e) < phase.depth;
      v[e] = inside ? float(filter[tap.filter + (g.channels_last ? c : c * g.r * g.s)]) : 0;
    }
  }
};
template <class Tile, class T>
struct FetchGradient {
  const Phase& phase;
  const T* dy;
  int64_t group;
  Phase::Pixel pixel[4];
  int deep;
  __device__ FetchGradient(const Phase& phase, const T* dy, int64_t group, int64_t first)
      : phase(phase), dy(dy), group(group) {
    const auto place = Tile::place(phase.g.channels_last);
    deep = place.deep;
#pragma unroll
    for (int e = 0; e < 4; ++e) pixel[e] = phase.pixel(first + place.along + (phase.g.channels_last ? 0 : e));
  }
  __device__ __forceinline__ void operator()(int64_t step, float (&v)[4]) const {
    const bool last = phase.g.channels_last;
    const int64_t d = step * Tile::kDepth + deep;
    Phase::Tap tap{};
    if (d < phase.depth) tap = phase.tap(d);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (last && e > 0 && d + e < phase.depth) tap = phase.tap(d + e);
      const int64_t at = d + (last ? e : 0) < phase.depth ? phase.element(pixel[e], tap, group) : -1;
      v[e] = at >= 0 ? float(dy[at]) : 0;
    }
  }
};

// One block of 256 threads per tile of kTile input channels by kTile pixels, in the order of Tiles, with groups as the
// batch. Shared memory: 16.5 or 17 KiB. Tensors have the contract's layout.
template <class T, int kTile>
__global__ void __launch_bounds__(256, 2) data_kernel(const T* filter, const T* dy, T* dx, Phase phase, Tiles tiles) {
  using Tile = TileF32<kTile>;
  DUET_SHARED(float, panel_filter, [Tile::kLines][Tile::kPitch]);
  DUET_SHARED(float, panel_gradient, [Tile::kLines][Tile::kPitch]);
  const Geometry& g = phase.g;
  const auto at = tiles.at(blockIdx.x);
  const int64_t c0 = at.row * kTile, p0 = at.col * kTile;

  float sum[Tile::kSide][Tile::kSide] = {};
  Tile::multiply((phase.depth + Tile::kDepth - 1) / Tile::kDepth, !g.channels_last, g.channels_last,
                 FetchFilter<Tile, T>(phase, filter, at.batch, c0), FetchGradient<Tile, T>(phase, dy, at.batch, p0),
                 panel_filter, panel_gradient, sum);

  // Write back.
#pragma unroll
  for (int j = 0; j < Tile::kSide; ++j) {
    const auto pixel = phase.pixel(p0 + Tile::column(j));
    if (pixel.image < 0) continue;
#pragma unroll
    for (int i = 0; i < Tile::kSide; ++i) {
      const int64_t c = c0 + Tile::row(i);
      if (c < g.group_c) dx[phase.result(pixel, at.batch * g.group_c + c)] = T(sum[i][j]);
    }
  }
}

// One block of 128 threads per tile of 128 pixels by 128 input channels, in the same order. 64 KiB of dynamic shared
// memory. Channels are last, and group_c and group_k are multiples of 8, so that a chunk of 8 depths is 8 output
// channels under one tap. filter and dy are aligned to 16 bytes, dx to 4.
template <class T>
__global__ void __launch_bounds__(TileHalf<T>::kThreads, 2)
    data_half_kernel(const T* filter, const T* dy, T* dx, Phase phase, Tiles tiles) {
  using Tile = TileHalf<T>;
  DUET_DYN_SHARED(T, shared);
  const Geometry& g = phase.g;
  const auto at = tiles.at(blockIdx.x);
  const int64_t p0 = at.row * Tile::kTile, c0 = at.col * Tile::kTile;
  const T* rows = filter + at.batch * g.group_k * g.depth;

  // The pixels of this thread's chunks, the same in every step.
  Phase::Pixel pixel[Tile::kChunksPerThread];
  int which = 0;
  Tile::template for_my_chunks<true>([&](int row, int) { pixel[which++] = phase.pixel(p0 + row); });
  const auto load_gradient = [&](T* panel, int64_t step) {
    int mine = 0;
    Tile::template for_my_chunks<true>([&](int row, int chunk) {
      const int64_t d = step * Tile::kDepth + chunk * 8;
      const int64_t from = d < phase.depth ? phase.element(pixel[mine], phase.tap(d), at.batch) : -1;
      ++mine;
      Tile::fetch(panel + Panel<true>::offset(row, chunk), from >= 0 ? dy + from : dy, from >= 0 ? 8 : 0, true, dy);
    });
  };
  const auto load_filter = [&](T* panel, int64_t step) {
    Tile::template for_my_chunks<false>([&](int row, int chunk) {
      const int64_t d = step * Tile::kDepth + row, c = c0 + chunk * 8;
      const bool inside = d < phase.depth && c < g.group_c;
      Tile::fetch(panel + Panel<false>::offset(row, chunk), inside ? rows + phase.tap(d).filter + c : filter,
                  inside ? 8 : 0, true, filter);
    });
  };
  // Multiply.
  typename Tile::Sums sums = {};
  Tile::template multiply<false, false>((phase.depth + Tile::kDepth - 1) / Tile::kDepth, load_gradient, load_filter,
                                        shared, sums);

  // Write back.
  for_my_pairs(sums, [&](int i, int j, float first, float second) {
    const auto to = phase.pixel(p0 + i);
    const int64_t c = c0 + j;
    if (to.image < 0 || c >= g.group_c) return;
    store_pack(dx + phase.result(to, at.batch * g.group_c + c), Pack<T, 2>{{T(first), T(second)}});
  });
}

Plan conv2d_backward_data_tuned(const Conv2dBackwardData& problem, GpuContext& gpu) {
  using P = Conv2dBackwardData;
  const Conv2d& p = problem.conv;
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  if (const char* reason = too_large(p)) return Unsupported{reason};
  std::vector<Phase> phases;
  if (p.n > 0 && p.group_c() > 0)
    for (int64_t a = 0; a < std::min(p.stride_h, p.h); ++a)
      for (int64_t b = 0; b < std::min(p.stride_w, p.w); ++b) {
        const Axis down = axis(a, p.h, p.pad_h, p.r, p.dil_h, p.stride_h);
        const Axis across = axis(b, p.w, p.pad_w, p.s, p.dil_w, p.stride_w);
        const int64_t taps =
            p.ho() * p.wo() == 0 ? 0 : int64_t{down.taps} * across.taps;  // without an output, no tap reaches a pixel
        phases.emplace_back(geometry(p), down, across, p.n * down.positions * across.positions, p.group_k() * taps);
      }

  return for_float(p.dtype, [&]<class T>() -> Plan {
    const bool half = sizeof(T) == 2 && p.layout == Layout::nhwc && p.group_c() % 8 == 0 && p.group_k() % 8 == 0;
    return Plan([=, phases = std::move(phases), groups = p.groups, &gpu](Args t) {
             const T *filter = t[P::filter].as<const T>(), *dy = t[P::dy].as<const T>();
             T* dx = t[P::dx].as<T>();
             for (const Phase& phase : phases) {
               const int64_t channels = phase.g.group_c;
               const auto grid = [&](const Tiles& tiles, int threads, int64_t shared) {
                 return Grid{.blocks = groups * tiles.down * tiles.across,
                             .threads = threads,
                             .shared_bytes = shared,
                             .stream = gpu.stream()};
               };
               if constexpr (sizeof(T) == 2) {
                 if (half && aligned16(filter, dy, dx)) {
                   const Tiles tiles{ceil_div(phase.pixels, 128), ceil_div(channels, 128)};
                   launch(data_half_kernel<T>, grid(tiles, TileHalf<T>::kThreads, TileHalf<T>::kSharedBytes), filter,
                          dy, dx, phase, tiles);
                   continue;
                 }
               }
               const auto run = [&]<int kTile>() {
                 const Tiles tiles{ceil_div(channels, kTile), ceil_div(phase.pixels, kTile)};
                 launch(data_kernel<T, kTile>, grid(tiles, 256, 0), filter, dy, dx, phase, tiles);
               };
               const int64_t blocks = groups * ceil_div(channels, 128) * ceil_div(phase.pixels, 128);
               if (channels <= 64 || blocks < gpu.multiprocessors())
                 run.template operator()<64>();
               else
                 run.template operator()<128>();
             }
           })
        .with(half ? "tensor cores" : "f32 tiles");
  });
}
DUET_REGISTER(conv2d_backward_data_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
