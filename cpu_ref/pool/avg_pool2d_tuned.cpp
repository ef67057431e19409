// SPDX-License-Identifier: Apache-2.0
// avg_pool2d and its backward, with vectors of f32. Work is divided as in max_pool2d_tuned.cpp, with sums in place of
// maxima; each sum is multiplied by the reciprocal count of its window (inverse_counts.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/pool/avg_pool2d_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/pool/halves-inl.h"
#include "cpu_ref/pool/rows-inl.h"
#include "cpu_ref/pool/inverse_counts.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/streaming.h"
#include "ops/pool/avg_pool2d.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// nchw: rows [first, last) of y, counted through all planes.
template <class T>
void mean_rows(const AvgPool2d& p, const InverseCounts& inverse, const T* x, T* y, int64_t first, int64_t last,
               bool far, float* scratch) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const PoolScratch s(p);
  const int64_t wo = p.wo();
  // Sums along one row of x.
  const auto across = [&](int64_t, float* entry, int64_t j, const auto& each_tap) HWY_ATTR {
    auto sum = hn::Zero(d);
    each_tap([&](auto tap) HWY_ATTR { sum = hn::Add(sum, tap); });
    hn::StoreU(sum, d, entry + j);
  };
  // Sums of those down the window, and the mean.
  const auto down = [&](int64_t o, int64_t i, const auto& each_entry) HWY_ATTR {
    const auto height = hn::Set(d, inverse.height[static_cast<size_t>(i)]);
    for (int64_t j = 0; j < wo; j += lanes) {
      auto sum = hn::Zero(d);
      each_entry([&](const float* entry) HWY_ATTR { sum = hn::Add(sum, hn::LoadU(d, entry + j)); });
      const auto inv_count = hn::Mul(height, load(d, inverse.width.data() + j, wo - j, 0.0f));
      store_f32_as(d, hn::Mul(sum, inv_count), y + o * wo + j, wo - j);
    }
  };
  pool_rows(p, x, first, last, far, 0, scratch, across, down);
}

// nhwc: rows [first, last) of y, counted through all images. Vectors run along the channels. kStream: all are whole and
// aligned (pixels_are_aligned()).
template <bool kStream, class T>
void mean_pixels(const AvgPool2d& p, const InverseCounts& inverse, const T* x, T* y, int64_t first, int64_t last,
                 bool far) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  const auto mean = [&]<int kVectors>(const WindowPixels& window, int64_t image, int64_t i, int64_t j, int64_t c,
                                      int64_t left) HWY_ATTR {
    const T* channels = x + image * p.h * p.w * depth + c;
    hn::Vec<decltype(d)> sum[kVectors];
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) sum[k] = hn::Zero(d);
    window.each([&](int64_t pixel) HWY_ATTR {
      const T* at = channels + pixel * depth;
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k)
        sum[k] = hn::Add(sum[k], kVectors == 1 ? load_as_f32(d, at, left) : load_as_f32(d, at + k * lanes));
    });
    const auto inv_count = hn::Set(d, inverse.height[static_cast<size_t>(i)] * inverse.width[static_cast<size_t>(j)]);
    T* to = y + ((image * ho + i) * wo + j) * depth + c;
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k)
      store_pixel<kStream>(d, hn::Mul(sum[k], inv_count), to + k * lanes, left - k * lanes);
  };
  pool_pixels(p, x, first, last, far, mean);
}

void avg_pool2d_rows(const AvgPool2d& p, const InverseCounts& inverse, Args t, int64_t first, int64_t last, bool stream,
                     float* scratch) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[AvgPool2d::x].as<const T>();
    auto* y = t[AvgPool2d::y].as<T>();
    if (halves(p)) return mean_halves(p, x, y, first, last, stream);
    if (p.depth() == 1) return mean_rows(p, inverse, x, y, first, last, stream, scratch);
    const bool past = stream && pixels_are_aligned(p, y);
    if (pixel_halves(p))
      return past ? mean_pixel_halves<true>(p, x, y, first, last) : mean_pixel_halves<false>(p, x, y, first, last);
    (past ? mean_pixels<true, T> : mean_pixels<false, T>)(p, inverse, x, y, first, last, stream);
  });
  if (stream) hwy::FlushStream();
}

// nchw backward: rows [first, last) of dx, counted through all planes. A row of y passes the same to each row of its
// windows: its entry of the ring is what it passes, and a row of dx adds up entries.
template <bool kStream, class T>
void spread_rows(const AvgPool2dBackward& p, const InverseCounts& inverse, const T* dy, T* dx, int64_t first,
                 int64_t last, float* scratch) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t wo = p.wo();
  const UnpoolScratch s(p);
  float *row = scratch + s.margin, *combed = scratch + s.row, *ring = combed + s.comb.floats() + s.plain;
  std::fill_n(scratch, s.row, 0.0f);
  const auto enter = [&](int64_t of_y, int64_t i, float* entry) HWY_ATTR {
    const auto height = hn::Set(d, inverse.height[static_cast<size_t>(i)]);
    for (int64_t j = 0; j < wo; j += lanes) {
      const auto inv_count = hn::Mul(height, load(d, inverse.width.data() + j, wo - j, 0.0f));
      hn::StoreU(hn::Mul(inv_count, load_as_f32(d, dy + of_y * wo + j, wo - j)), d, row + j);
    }
    add_taps(s.comb, p.s, combed, [&](int64_t, int64_t, int64_t j) HWY_ATTR { return hn::LoadU(d, row + j); });
    if (p.stride_w > 1) return uncomb_row(s.comb, combed, entry);
    std::copy_n(combed + p.pad_w, p.w, entry);
  };
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto both = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  const auto leave = [&](int64_t o, const HeldRows& held) HWY_ATTR {
    T* to = dx + o * p.w;
    if (held.count == 0) return static_cast<void>(std::fill_n(to, p.w, T(0.0f)));
    if (held.count == 1) return map<kStream>(d, p.w, same, to, held.first[0]);
    if (held.count == 2) return map<kStream>(d, p.w, both, to, held.first[0], held.first[1]);
    const float* sum = nullptr;
    held.each([&](const float* entry) HWY_ATTR {
      if (sum) map<false>(d, p.w, both, combed, sum, entry);
      sum = sum ? combed : entry;
    });
    map<kStream>(d, p.w, same, to, sum);
  };
  unpool_rows(p, s, ring, first, last, enter, leave);
}

// nhwc backward: rows [first, last) of dx, counted through all images.
template <bool kStream, class T>
void spread_pixels(const AvgPool2dBackward& p, const InverseCounts& inverse, const T* dy, T* dx, int64_t first,
                   int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  const auto add = [&]<int kVectors>(hn::Vec<decltype(d)>* sum, int64_t image, int64_t i, int64_t j, int64_t, int64_t c,
                                     int64_t left) HWY_ATTR {
    const auto inv_count = hn::Set(d, inverse.height[static_cast<size_t>(i)] * inverse.width[static_cast<size_t>(j)]);
    const T* from = dy + ((image * ho + i) * wo + j) * depth + c;
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      const auto v = kVectors == 1 ? load_as_f32(d, from, left) : load_as_f32(d, from + k * lanes);
      sum[k] = hn::Add(sum[k], hn::Mul(inv_count, v));
    }
  };
  unpool_pixels<kStream, true>(p, dx, first, last, add);
}

void avg_pool2d_backward_rows(const AvgPool2dBackward& p, const InverseCounts& inverse, Args t, int64_t first,
                              int64_t last, bool stream, float* scratch) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* dy = t[AvgPool2dBackward::dy].as<const T>();
    auto* dx = t[AvgPool2dBackward::dx].as<T>();
    if (halves(p)) return spread_halves(p, dy, dx, first, last);
    if (p.depth() == 1) {
      const auto rows = stream ? spread_rows<true, T> : spread_rows<false, T>;
      return rows(p, inverse, dy, dx, first, last, scratch);
    }
    const bool past = stream && pixels_are_aligned(p, dx);
    if (pixel_halves(p))
      return past ? spread_pixel_halves<true>(p, dy, dx, first, last)
                  : spread_pixel_halves<false>(p, dy, dx, first, last);
    const auto pixels = past ? spread_pixels<true, T> : spread_pixels<false, T>;
    pixels(p, inverse, dy, dx, first, last);
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(avg_pool2d_rows);
HWY_EXPORT(avg_pool2d_backward_rows);

Plan avg_pool2d_tuned(const AvgPool2d& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache((p.x_elements() + p.y_elements()) * size_of(p.dtype));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, PoolScratch(p).floats);
  return Plan([p, stream, inverse = InverseCounts(p, p.count_pad), scratch, &cpu](Args t) {
           const int64_t grain = rows_per_chunk(p.stride_h * p.w * p.depth());
           cpu.parallel_for(p.wo() * p.depth() == 0 ? 0 : p.images() * p.ho(), grain, [&](int64_t first, int64_t last) {
             HWY_DYNAMIC_DISPATCH(avg_pool2d_rows)(p, inverse, t, first, last, stream, scratch.of_this_thread(t));
           });
         })
      .with(std::move(workspace));
}
DUET_REGISTER(avg_pool2d_tuned);  // cpu.tuned

Plan avg_pool2d_backward_tuned(const AvgPool2dBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache((p.x_elements() + p.y_elements()) * size_of(p.dtype));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, UnpoolScratch(p).floats);
  return Plan([p, stream, inverse = InverseCounts(p, p.count_pad), scratch, &cpu](Args t) {
           cpu.parallel_for(p.images() * p.h, rows_per_chunk(p.w * p.depth()), [&](int64_t first, int64_t last) {
             HWY_DYNAMIC_DISPATCH(avg_pool2d_backward_rows)
             (p, inverse, t, first, last, stream, scratch.of_this_thread(t));
           });
         })
      .with(std::move(workspace));
}
DUET_REGISTER(avg_pool2d_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
