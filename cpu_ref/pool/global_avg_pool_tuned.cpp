// SPDX-License-Identifier: Apache-2.0
// global_avg_pool and its backward, with vectors of f32. Threads share the elements of y. In nchw each is the sum over
// a plane, with vectors along the plane; in nhwc vectors run along the channels, and the pixels of an image are added.
// Sums of many pixels are cut into runs (reduce-inl.h). Backward: threads share the planes (nchw) or the images (nhwc).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/pool/global_avg_pool_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>  // Prefetch

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/reduce-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/pool/global_avg_pool.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// The sum of a plane. readable: elements of x from here on, of this plane and those behind it. A small plane's last
// vector is read whole where x goes on, and the pixels of the next plane are masked: otherwise, the part of a vector of
// halves would take longer than the rest of a plane of 7 x 7.
template <class D, class T>
HWY_INLINE float plane_sum(D d, const T* x, int64_t pixels, int64_t readable) {
  constexpr int64_t kMaxVectors = 16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (pixels > kMaxVectors * lanes || ceil_div(pixels, lanes) * lanes > readable)
    return static_cast<float>(sum_in_runs(
        d, pixels, [](auto v) HWY_ATTR { return v; }, x));
  auto sum = hn::Zero(d);
  int64_t k = 0;
  for (; k + lanes <= pixels; k += lanes) sum = hn::Add(sum, load_as_f32(d, x + k));
  if (k < pixels)
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(pixels - k)), load_as_f32(d, x + k)));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// nchw: elements [first, last) of y, one for each plane.
void global_avg_planes(const GlobalAvgPool& p, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t pixels = p.pixels(), planes = p.n * p.c;
  const float inv_pixels = 1 / static_cast<float>(std::max<int64_t>(1, pixels));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[GlobalAvgPool::x].as<const T>();
    auto* y = t[GlobalAvgPool::y].as<T>();
    for (int64_t i = first; i < last; ++i) {
      const float total = plane_sum(d, x + i * pixels, pixels, (planes - i) * pixels);
      store_f32_as(one, hn::Set(one, total * inv_pixels), y + i);
    }
  });
}

// y[c] = the mean of column c of `pixels` rows, for as many of the `left` columns as fill tiles. Returns how many.
// pixels is at most kSumRun / 4. A tile is a KiB wide (AVX-512), and later rows are prefetched: the stretches of a row
// that sum_rows reads are too short for the hardware's prefetch where x lies in L3.
template <class D, class T>
HWY_INLINE int64_t mean_of_tiles(D d, const T* x, int64_t left, int64_t pixels, int64_t depth, hn::Vec<D> inv_pixels,
                                 T* y) {
  constexpr int kVectors = hn::MaxLanes(d) >= 16 ? 16 : 8;
  constexpr int64_t kAhead = 4;  // rows
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + kVectors * lanes <= left; c += kVectors * lanes) {
    hn::Vec<D> sum[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
    for (int64_t k = 0; k < pixels; ++k) {
      const T* row = x + k * depth + c;
      const T* ahead = k + kAhead < pixels ? row + kAhead * depth : row;
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        hwy::Prefetch(ahead + v * lanes);
        sum[v] = hn::Add(sum[v], load_as_f32(d, row + v * lanes));
      }
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store_f32_as(d, hn::Mul(sum[v], inv_pixels), y + c + v * lanes);
  }
  return c;
}

// nhwc: elements [first, last) of y, which are channels of images.
void global_avg_channels(const GlobalAvgPool& p, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const int64_t pixels = p.pixels(), depth = p.depth();
  const auto inv_pixels = hn::Set(d, 1 / static_cast<float>(std::max<int64_t>(1, pixels)));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[GlobalAvgPool::x].as<const T>();
    auto* y = t[GlobalAvgPool::y].as<T>();
    for (int64_t i = first; i < last;) {
      const int64_t image = i / depth, channel = i % depth;
      int64_t left = std::min(depth - channel, last - i);
      const T* from = x + image * pixels * depth + channel;
      T* to = y + i;
      i += left;
      if (pixels <= kSumRun / 4) {
        const int64_t done = mean_of_tiles(d, from, left, pixels, depth, inv_pixels, to);
        from += done;
        to += done;
        left -= done;
      }
      sum_rows(
          d, left, pixels, [d](int64_t, auto...) HWY_ATTR { return hn::Zero(d); },
          [&](int64_t k) { return from + k * depth; },
          [&](int64_t c, auto total, auto... lanes_left)
              HWY_ATTR { store_f32_as(d, hn::Mul(total, inv_pixels), to + c, lanes_left...); });
    }
  });
}

// nchw backward for planes of at most kSmallPlane pixels: planes [first, last) of dx. As many planes as a vector has
// lanes are `pixels` whole vectors, each of which spreads some of these planes' values over its lanes.
constexpr int64_t kSmallPlane = 64;
template <class T>
void spread_small_planes(const T* dy, T* dx, int64_t pixels, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN int32_t plane_of[kSmallPlane * hn::MaxLanes(d)];
  for (int64_t plane = 0; plane < lanes; ++plane)
    std::fill_n(plane_of + plane * pixels, pixels, static_cast<int32_t>(plane));
  const auto inv_pixels = hn::Set(d, 1 / static_cast<float>(pixels));
  for (int64_t i = first; i < last; i += lanes) {
    const auto v = hn::Mul(load_as_f32(d, dy + i, last - i), inv_pixels);
    T* to = dx + i * pixels;
    const int64_t elements = std::min(lanes, last - i) * pixels;
    for (int64_t k = 0; k < elements; k += lanes) {
      const auto spread = hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::Load(di, plane_of + k)));
      store_f32_as(d, spread, to + k, elements - k);
    }
  }
}

// Backward: planes (nchw) or images (nhwc) [first, last) of dx.
void global_avg_backward_images(const GlobalAvgPoolBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t pixels = p.h * p.w, depth = p.forward().depth();
  const auto inv_pixels = hn::Set(d, 1 / static_cast<float>(std::max<int64_t>(1, pixels)));
  const auto formula = [inv_pixels](auto v) HWY_ATTR { return hn::Mul(v, inv_pixels); };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* dy = t[GlobalAvgPoolBackward::dy].as<const T>();
    auto* dx = t[GlobalAvgPoolBackward::dx].as<T>();
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (depth == 1 && pixels <= kSmallPlane) return spread_small_planes(dy, dx, pixels, first, last);
    for (int64_t i = first; i < last; ++i) {
      if (depth == 1) {  // one value for the whole plane
        const auto v = hn::Mul(hn::Set(d, hn::GetLane(load_as_f32(one, dy + i))), inv_pixels);
        for (int64_t k = 0; k < pixels; k += lanes) store_f32_as(d, v, dx + i * pixels + k, pixels - k);
      } else {
        for (int64_t k = 0; k < pixels; ++k) {
          T* to = dx + (i * pixels + k) * depth;
          stream ? map<true>(d, depth, formula, to, dy + i * depth) : map<false>(d, depth, formula, to, dy + i * depth);
        }
      }
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(global_avg_planes);
HWY_EXPORT(global_avg_channels);
HWY_EXPORT(global_avg_backward_images);

Plan global_avg_pool_tuned(const GlobalAvgPool& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const int64_t grain = rows_per_chunk(p.pixels());  // elements of y
  return [p, grain, &cpu](Args t) {
    cpu.parallel_for(p.n * p.c, p.depth() == 1 ? grain : std::max<int64_t>(grain, 512),
                     [&](int64_t first, int64_t last) {
                       if (p.depth() == 1)
                         HWY_DYNAMIC_DISPATCH(global_avg_planes)(p, t, first, last);
                       else
                         HWY_DYNAMIC_DISPATCH(global_avg_channels)(p, t, first, last);
                     });
  };
}
DUET_REGISTER(global_avg_pool_tuned);  // cpu.tuned

Plan global_avg_pool_backward_tuned(const GlobalAvgPoolBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const GlobalAvgPool f = p.forward();
  const bool stream = beyond_cache(p.n * p.c * (f.pixels() + 1) * size_of(p.dtype));
  return [p, f, stream, &cpu](Args t) {
    cpu.parallel_for(f.images(), rows_per_chunk(f.pixels() * f.depth()), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(global_avg_backward_images)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(global_avg_pool_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
