// SPDX-License-Identifier: Apache-2.0
// A product dx (c, pixels) = w' (c, k r s) dy (k r s, pixels) whose second operand is gathered from dy (implicit GEMM).
// Input pixels whose row and column have the same remainders modulo the strides are reached by the same taps. Each such
// phase is a launch of its own, so that the zeros between strides are not multiplied. A block computes one tile of
// input channels x pixels: by register tiling in f32, or on the tensor cores for channels-last bf16 and f16 whose
// groups have multiples of 8 channels (mma.sync, or wgmma on Hopper).
#include <algorithm>
#include <vector>

#include "kernels/conv/copy_windows.cuh"
#include "kernels/conv/geometry.cuh"
#include "kernels/gemm/product.h"
#include "kernels/gemm/tile_f32.cuh"
#include "kernels/gemm/tile_half.cuh"
#include "kernels/gemm/tile_warpgroup.cuh"
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
  Odometer depths;  // taps across, taps down, k, or with channels_last k, taps across, taps down
  Digits one;       // depth
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
        by_positions_across(across.positions),
        depths(g.channels_last ? Odometer{g.group_k, across.taps} : Odometer{across.taps, down.taps}),
        one(depths.digits(1)) {}

  // The output channel and tap at depth d. Depths have the order (k, r, s), or with channels_last (r, s, k).
  template <bool kLast>
  __device__ __forceinline__ Digits digits_at(int64_t d) const {
    auto rest = static_cast<uint32_t>(d);
    const auto within = static_cast<uint32_t>(kLast ? by_group_k.split(rest) : by_taps.split(rest));
    const uint32_t k = kLast ? within : rest;
    uint32_t rs = kLast ? rest : within;
    const int ts = by_taps_across.split(rs), tr = static_cast<int>(rs);
    return kLast ? Digits{static_cast<int>(k), ts, tr} : Digits{ts, tr, static_cast<int>(k)};
  }
  struct Tap {
    int filter;    // the element of the group's filters for the first input channel
    int gradient;  // what it adds to a pixel's element of dy, and to the pixel's row and column
    int row, col;
  };
  template <bool kLast>
  __device__ __forceinline__ Tap tap(Digits d) const {
    const int k = kLast ? d.fast : d.slow, ts = kLast ? d.middle : d.fast, tr = kLast ? d.slow : d.middle;
    const int rs = (down.first + tr * down.step) * g.s + across.first + ts * across.step, plane = g.r * g.s;
    const int row = down.offset - tr * down.offset_step, col = across.offset - ts * across.offset_step;
    return {kLast ? (k * plane + rs) * g.group_c : k * plane * g.group_c + rs,
            kLast ? (row * g.wo + col) * static_cast<int>(g.k) + k : (k * g.ho + row) * g.wo + col, row, col};
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
  // A pixel for threads that visit many taps of it. origin: the element of dy at the pixel's row and column, as if it
  // had them. A pixel that does not exist lies above dy, whatever the tap.
  struct Window {
    int64_t origin;
    int row, col;
  };
  template <bool kLast>
  __device__ __forceinline__ Window window(int64_t p, int64_t group) const {
    const Pixel at = pixel(p);
    const int64_t k = group * g.group_k;
    return {kLast ? ((at.image * g.ho + at.row) * g.wo + at.col) * g.k + k
                  : ((at.image * g.k + k) * g.ho + at.row) * g.wo + at.col,
            at.image < 0 ? -(1 << 30) : at.row, at.col};
  }
  // Whether the tap connects the pixel with an element of dy.
  __device__ __forceinline__ bool inside(const Window& p, const Tap& t) const {
    return static_cast<unsigned>(p.row + t.row) < static_cast<unsigned>(g.ho) &&
           static_cast<unsigned>(p.col + t.col) < static_cast<unsigned>(g.wo);
  }
  // The element of dx at a pixel.
  template <bool kLast>
  __device__ __forceinline__ int64_t result(const Pixel& p, int64_t channel) const {
    const int64_t row = down.phase + int64_t{p.row} * down.stride, col = across.phase + int64_t{p.col} * across.stride;
    return kLast ? ((p.image * g.h + row) * g.w + col) * g.c + channel
                 : ((p.image * g.c + channel) * g.h + row) * g.w + col;
  }
};

// Load this thread's four elements of each step, in the order of the steps (TileF32::Place). FetchFilter: four channels
// of one depth with channels last (kLast), else four depths of one channel. FetchGradient: four depths of one pixel
// with channels last, else one depth of four pixels. step: the digits of Tile::kDepth. packs: with kLast, whether four
// channels may be loaded together, and four output channels lie under one tap.
template <class Tile, class T, bool kLast>
struct FetchFilter {
  const Phase& phase;
  const T* from;       // of the group, at this thread's first channel
  Digits step, depth;  // depth: the first one of the next step
  int left, channels;  // depths from there on; channels that exist
  bool packs;
  __device__ FetchFilter(const Phase& phase, Digits step, const T* filter, int64_t group, int64_t first, bool packs)
      : phase(phase), step(step), packs(packs) {
    const auto place = Tile::place(!kLast);
    const Geometry& g = phase.g;
    depth = phase.digits_at<kLast>(place.deep);
    left = static_cast<int>(phase.depth) - place.deep;
    channels = static_cast<int>(max(int64_t{0}, min(int64_t{4}, g.group_c - first - place.along)));
    from = filter + group * g.group_k * g.depth + (first + place.along) * (kLast ? 1 : int64_t{g.r} * g.s);
  }
  __device__ __forceinline__ void operator()(int64_t, float (&v)[4]) {
    Digits now = depth;
    int at = phase.tap<kLast>(now).filter;
    if (kLast && packs) {
      Pack<T, 4> pack{};
      if (left > 0 && channels > 0) pack = load_pack<4>(from + at);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = float(pack.at[e]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (!kLast && e > 0) {
          now = phase.depths.add(now, phase.one);
          at = phase.tap<kLast>(now).filter;
        }
        const bool exists = kLast ? left > 0 && e < channels : left > e && channels > 0;
        v[e] = exists ? float(from[at + (kLast ? e : 0)]) : 0;
      }
    }
    depth = phase.depths.add(depth, step);
    left -= Tile::kDepth;
  }
};
template <class Tile, class T, bool kLast>
struct FetchGradient {
  static constexpr int kPixels = kLast ? 1 : 4;
  const Phase& phase;
  const T* from;  // dy at the first pixel's row and column, as if it had them
  Digits step, depth;
  int left;
  int ahead[kPixels];  // elements from the first pixel
  int row[kPixels], col[kPixels];
  bool packs;
  __device__ FetchGradient(const Phase& phase, Digits step, const T* dy, int64_t group, int64_t first, bool packs)
      : phase(phase), step(step), packs(packs) {
    const auto place = Tile::place(kLast);
    depth = phase.digits_at<kLast>(place.deep);
    left = static_cast<int>(phase.depth) - place.deep;
    const int64_t origin = phase.window<kLast>(first + place.along, group).origin;
    from = dy + origin;
#pragma unroll
    for (int e = 0; e < kPixels; ++e) {
      const Phase::Window window = phase.window<kLast>(first + place.along + e, group);
      ahead[e] = static_cast<int>(window.origin - origin);
      row[e] = window.row;
      col[e] = window.col;
    }
  }
  __device__ __forceinline__ bool inside(int pixel, const Phase::Tap& tap) const {
    return phase.inside({0, row[pixel], col[pixel]}, tap);
  }
  __device__ __forceinline__ void operator()(int64_t, float (&v)[4]) {
    Digits now = depth;
    Phase::Tap tap = phase.tap<kLast>(now);
    if (kLast && packs) {
      Pack<T, 4> pack{};
      if (left > 0 && inside(0, tap)) pack = load_pack<4>(from + tap.gradient);
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = float(pack.at[e]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (kLast && e > 0) {
          now = phase.depths.add(now, phase.one);
          tap = phase.tap<kLast>(now);
        }
        const int pixel = kLast ? 0 : e;
        v[e] = left > (kLast ? e : 0) && inside(pixel, tap) ? float(from[ahead[pixel] + tap.gradient]) : 0;
      }
    }
    depth = phase.depths.add(depth, step);
    left -= Tile::kDepth;
  }
};

// One block of 256 threads per tile of kTile input channels by kTile pixels, in the order of Tiles, with groups as the
// batch. Shared memory: 16.5 or 17 KiB. Tensors have the contract's layout, kLast: with channels last. step, packs: see
// FetchFilter.
template <class T, int kTile, bool kLast>
__global__ void __launch_bounds__(256, 2)
    data_kernel(const T* filter, const T* dy, T* dx, Phase phase, Digits step, Tiles tiles, bool packs) {
  using Tile = TileF32<kTile>;
  DUET_SHARED(float, panel_filter, [Tile::kLines][Tile::kPitch]);
  DUET_SHARED(float, panel_gradient, [Tile::kLines][Tile::kPitch]);
  const Geometry& g = phase.g;
  const auto at = tiles.at(blockIdx.x);
  const int64_t c0 = at.row * kTile, p0 = at.col * kTile;

  float sum[Tile::kSide][Tile::kSide] = {};
  Tile::multiply((phase.depth + Tile::kDepth - 1) / Tile::kDepth, !kLast, kLast,
                 FetchFilter<Tile, T, kLast>(phase, step, filter, at.batch, c0, packs),
                 FetchGradient<Tile, T, kLast>(phase, step, dy, at.batch, p0, packs), panel_filter, panel_gradient,
                 sum);

  // Write back.
#pragma unroll
  for (int j = 0; j < Tile::kSide; ++j) {
    const auto pixel = phase.pixel(p0 + Tile::column(j));
    if (pixel.image < 0) continue;
#pragma unroll
    for (int i = 0; i < Tile::kSide; ++i) {
      const int64_t c = c0 + Tile::row(i);
      if (c < g.group_c) dx[phase.result<kLast>(pixel, at.batch * g.group_c + c)] = T(sum[i][j]);
    }
  }
}

// One block of 128 threads per tile of 128 pixels by 128 input channels, in the same order. 64 KiB of dynamic shared
// memory. Channels are last, and group_c and group_k are multiples of 8, so that a chunk of 8 depths is 8 output
// channels under one tap. filter and dy are aligned to 16 bytes, dx to 4.
template <class T>
__global__ void __launch_bounds__(TileHalf<T>::kThreads, 2)
    data_half_kernel(const T* filter, const T* dy, T* dx, Phase phase, Digits step, Tiles tiles) {
  using Tile = TileHalf<T>;
  DUET_DYN_SHARED(T, shared);
  const Geometry& g = phase.g;
  const auto at = tiles.at(blockIdx.x);
  const int64_t p0 = at.row * Tile::kTile, c0 = at.col * Tile::kTile;
  const T* rows = filter + at.batch * g.group_k * g.depth;

  // This thread's chunks are under the same tap in every step, which moves on by Tile::kDepth, and have the same
  // pixels.
  constexpr int kChunks = Panel<true>::kChunks;
  static_assert(Tile::kThreads % kChunks == 0);
  const int deep = static_cast<int>(threadIdx.x) % kChunks * 8;
  Digits depth = phase.digits_at<true>(deep);
  int left = static_cast<int>(phase.depth) - deep;
  Phase::Window window[Tile::kChunksPerThread];
  int which = 0;
  Tile::template for_my_chunks<true>([&](int row, int) { window[which++] = phase.window<true>(p0 + row, at.batch); });
  // Called once for each step, in order.
  const auto load_gradient = [&](T* panel, int64_t) {
    const Phase::Tap tap = phase.tap<true>(depth);
    int mine = 0;
    Tile::template for_my_chunks<true>([&](int row, int chunk) {
      const bool inside = left > 0 && phase.inside(window[mine], tap);
      Tile::fetch(panel + Panel<true>::offset(row, chunk), dy + window[mine].origin + tap.gradient, inside ? 8 : 0,
                  true, dy);
      ++mine;
    });
    depth = phase.depths.add(depth, step);
    left -= Tile::kDepth;
  };
  const auto load_filter = [&](T* panel, int64_t index) {
    Tile::template for_my_chunks<false>([&](int row, int chunk) {
      const int64_t d = index * Tile::kDepth + row, c = c0 + chunk * 8;
      const bool inside = d < phase.depth && c < g.group_c;
      const int64_t from = phase.tap<true>(phase.digits_at<true>(d)).filter;
      Tile::fetch(panel + Panel<false>::offset(row, chunk), inside ? rows + from + c : filter, inside ? 8 : 0, true,
                  filter);
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
    store_pack(dx + phase.result<true>(to, at.batch * g.group_c + c), Pack<T, 2>{{T(first), T(second)}});
  });
}

// The same on Hopper, by wgmma: one block of 384 threads per tile of 128 pixels by kColumns input channels.
template <class T, int kColumns>
__global__ void __launch_bounds__(TileWarpgroup<T, kColumns>::kThreads, 1)
    data_warpgroup_kernel(const T* filter, const T* dy, T* dx, Phase phase, Tiles tiles) {
  using Tile = TileWarpgroup<T, kColumns>;
  using Gradient = typename Tile::template PanelA<true>;
  using Filter = typename Tile::template PanelB<false>;
  using Share = typename Tile::template Share<Filter>;
  DUET_DYN_SHARED(T, shared);
  DUET_SHARED(Phase::Window, windows, [Tile::kRows]);
  const Geometry& g = phase.g;
  const auto at = tiles.at(blockIdx.x);
  const int64_t p0 = at.row * Tile::kRows, c0 = at.col * kColumns;
  const T* rows = filter + at.batch * g.group_k * g.depth;
  if (threadIdx.x < Tile::kRows) windows[threadIdx.x] = phase.window<true>(p0 + threadIdx.x, at.batch);
  __syncthreads();

  const auto load_gradient = [&](T* panel, int64_t step) {
    copy_windows<Tile, Gradient>(
        panel, windows, step, phase.depth, phase, [&](int64_t d) { return phase.tap<true>(phase.digits_at<true>(d)); },
        [&](const Phase::Tap& tap) { return dy + tap.gradient; });
  };
  const auto load_filter = [&](T* panel, int64_t step) {
    const Share share;
#pragma unroll 4
    for (int i = 0; i < Filter::kLines; i += Share::kLineStep) {
      const int64_t d = step * Tile::kDepth + share.line + i;
      const bool exists = d < phase.depth;
      const T* from = rows + phase.tap<true>(phase.digits_at<true>(exists ? d : 0)).filter;
#pragma unroll
      for (int j = 0; j < Filter::kChunks; j += Share::kChunkStep) {
        const int64_t c = c0 + (share.chunk + j) * 8;
        T* to = panel + Filter::offset(share.line + i, share.chunk + j);
        if (exists && c < g.group_c)
          cp_async16(to, from + c);
        else
          store_pack(to, Pack<T>{});
      }
    }
  };
  typename Tile::Sums sums = {};
  Tile::template multiply<false, false>((phase.depth + Tile::kDepth - 1) / Tile::kDepth, load_gradient, load_filter,
                                        shared, sums);

  // Write back.
  Tile::for_my_results(sums, shared, [&](int i, int j, const float(&sum)[8]) {
    const auto to = phase.pixel(p0 + i);
    const int64_t c = c0 + j;
    if (to.image < 0 || c >= g.group_c) return;
    Pack<T> pack;
#pragma unroll
    for (int e = 0; e < 8; ++e) pack.at[e] = T(sum[e]);
    store_pack(dx + phase.result<true>(to, at.batch * g.group_c + c), pack);
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
                 if (half && aligned16(filter, dy, dx) && takes_warpgroups(gpu.capability(), phase.depth)) {
                   const auto by_columns = [&]<int kColumns>() {
                     using Tile = TileWarpgroup<T, kColumns>;
                     const Tiles tiles{ceil_div(phase.pixels, Tile::kRows), ceil_div(channels, kColumns)};
                     launch(data_warpgroup_kernel<T, kColumns>, grid(tiles, Tile::kThreads, Tile::kSharedBytes), filter,
                            dy, dx, phase, tiles);
                   };
                   channels <= 64 ? by_columns.template operator()<64>() : by_columns.template operator()<128>();
                   continue;
                 }
                 if (half && aligned16(filter, dy, dx)) {
                   const Tiles tiles{ceil_div(phase.pixels, 128), ceil_div(channels, 128)};
                   launch(data_half_kernel<T>, grid(tiles, TileHalf<T>::kThreads, TileHalf<T>::kSharedBytes), filter,
                          dy, dx, phase, phase.depths.digits(TileHalf<T>::kDepth), tiles);
                   continue;
                 }
               }
               const auto run = [&]<int kTile>() {
                 const Tiles tiles{ceil_div(channels, kTile), ceil_div(phase.pixels, kTile)};
                 const Digits step = phase.depths.digits(TileF32<kTile>::kDepth);
                 const bool packs = channels % 4 == 0 && phase.g.group_k % 4 == 0 && aligned16(filter, dy);
                 if (phase.g.channels_last)
                   launch(data_kernel<T, kTile, true>, grid(tiles, 256, 0), filter, dy, dx, phase, step, tiles, packs);
                 else
                   launch(data_kernel<T, kTile, false>, grid(tiles, 256, 0), filter, dy, dx, phase, step, tiles, false);
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
