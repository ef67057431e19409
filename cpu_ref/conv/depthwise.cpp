// SPDX-License-Identifier: Apache-2.0
// The loops of depthwise convolution, with vectors of f32; depthwise.h says how a plane is laid out and who calls this.
// Vectors run along a row of results. The caller divides the channels among threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/depthwise.cpp"  // compiled once per instruction set
#include "cpu_ref/conv/depthwise.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "cpu_ref/clamp-inl.h"
#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: load_as_f32, store_f32_as, for_float, max_or_nan
using View = Depthwise::View;

// Rows of results at a time: enough sums to hide the latency of a multiply-add; divides the usual heights 7, 14, 28,
// 56, 112.
constexpr int kRowsAtOnce = 7;

// kRows rows of results, a vector of columns at a time. bias, floor: y = max(sum + bias, floor).
template <int kRows, class T>
HWY_INLINE void convolve_rows(const View& v, const float* copy, const T* filter, T* y, float bias, float floor) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < v.wo; j += lanes) {
    hn::Vec<decltype(d)> sum[kRows];
#pragma GCC unroll 8
    for (int q = 0; q < kRows; ++q) sum[q] = hn::Set(d, bias);
    // Sum over taps.
    for (int64_t t = 0; t < v.taps; ++t) {
      const auto weight = hn::Set(d, static_cast<float>(filter[v.tap[t]]));
      const float* from = copy + v.offset[t] + j;
#pragma GCC unroll 8
      for (int q = 0; q < kRows; ++q) sum[q] = hn::MulAdd(weight, hn::LoadU(d, from + q * v.row_step), sum[q]);
    }
#pragma GCC unroll 8
    for (int q = 0; q < kRows; ++q) {
      sum[q] = max_or_nan(hn::Set(d, floor), sum[q]);
      T* to = y + q * v.places.row_step + j * v.places.column_step;
      const int64_t left = v.wo - j;
      if (v.places.column_step == 1) {
        store_f32_as(d, sum[q], to, left);
      } else {
        HWY_ALIGN float one[hn::MaxLanes(d)];
        hn::Store(sum[q], d, one);
        for (int64_t i = 0; i < std::min(lanes, left); ++i) to[i * v.places.column_step] = static_cast<T>(one[i]);
      }
    }
  }
}

// One plane; copy: its copy with the border.
void convolve_plane(const View& v, const float* copy, const void* filter, void* y, const Depthwise::Finish& finish) {
  const float floor = finish.relu ? 0 : -INFINITY;
  for_float(v.dtype, [&]<class T>() {
    const auto* f = static_cast<const T*>(filter);
    const float bias = finish.bias ? static_cast<float>(*static_cast<const T*>(finish.bias)) : 0;
    const auto rows = [&]<int kRows>(int64_t i) {
      convolve_rows<kRows>(v, copy + i * v.row_step, f, static_cast<T*>(y) + i * v.places.row_step, bias, floor);
    };
    int64_t i = 0;
    for (; i + kRowsAtOnce <= v.ho; i += kRowsAtOnce) rows.template operator()<kRowsAtOnce>(i);
    for (; i < v.ho; ++i) rows.template operator()<1>(i);
  });
}

// sums (taps, lanes) += the products of dy and one image. Four accumulators, each with every fourth row.
void gradient_plane(const View& v, const float* copy, const void* dy, float* sums) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kBandRows = 28;  // rows of dy and of the copy that stay in L1 while all taps are taken
  for_float(v.dtype, [&]<class T>() {
    for (int64_t first = 0; first < v.ho; first += kBandRows) {
      const int64_t end = std::min(v.ho, first + kBandRows);
      for (int64_t t = 0; t < v.taps; ++t) {
        auto s0 = hn::Load(d, sums + t * lanes), s1 = hn::Zero(d), s2 = s1, s3 = s1;
        for (int64_t j = 0; j < v.wo; j += lanes) {
          const int64_t left = v.wo - j;
          const T* from = static_cast<const T*>(dy) + first * v.wo + j;
          const float* x = copy + v.offset[t] + first * v.row_step + j;
          const auto product = [&](int64_t q, auto sum) HWY_ATTR {
            return hn::MulAdd(load_as_f32(d, from + q * v.wo, left), hn::LoadU(d, x + q * v.row_step), sum);
          };
          int64_t q = 0;
          for (; q + 4 <= end - first; q += 4) {
            s0 = product(q, s0);
            s1 = product(q + 1, s1);
            s2 = product(q + 2, s2);
            s3 = product(q + 3, s3);
          }
          for (; q < end - first; ++q) s0 = product(q, s0);
        }
        hn::Store(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), d, sums + t * lanes);
      }
    }
  });
}

// dw: the lanes of each tap's sum, added and rounded.
void store_gradient(const View& v, const float* sums, void* dw) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(v.dtype, [&]<class T>() {
    for (int64_t t = 0; t < v.taps; ++t)
      static_cast<T*>(dw)[v.tap[t]] = static_cast<T>(hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums + t * lanes))));
  });
}

void lanes_of(int64_t* lanes) { *lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::engine {
namespace {
HWY_EXPORT(convolve_plane);
HWY_EXPORT(gradient_plane);
HWY_EXPORT(store_gradient);
HWY_EXPORT(lanes_of);

int64_t lanes() {
  int64_t n = 0;
  HWY_DYNAMIC_DISPATCH(lanes_of)(&n);
  return n;
}
int64_t aligned(int64_t floats) { return ceil_div(floats, 16) * 16; }
}  // namespace

Depthwise::Depthwise(Gather gather, std::vector<int64_t> tap, const Places& places)
    : g_(std::move(gather)), tap_(std::move(tap)), places_(places) {
  const auto [up, low] = std::minmax_element(g_.down.begin(), g_.down.end());
  const auto [left, right] = std::minmax_element(g_.across.begin(), g_.across.end());
  row0_ = *up;
  column0_ = *left;
  rows_ = (g_.ho - 1) * g_.stride_h + *low - *up + 1;
  // Whole vectors of columns, with zeros beyond the image. gradient() multiplies what lies there by 0, so it must be
  // finite.
  width_ = ceil_div(g_.wo, lanes()) * lanes() + (*right - *left) / g_.stride_w + 1;
  row_step_ = g_.stride_w * width_;
  for (const int64_t down : g_.down)
    for (const int64_t across : g_.across) {
      const int64_t column = across - column0_;
      offset_.push_back((down - row0_) * row_step_ + column % g_.stride_w * width_ + column / g_.stride_w);
    }
  slack_ = aligned(rows_ * row_step_) - rows_ * row_step_ + static_cast<int64_t>(tap_.size()) * lanes();
}

void Depthwise::copy(const void* x, float* memory) const {
  for (int64_t b = 0; b < g_.stride_w; ++b)
    copy_plane({.x = x,
                .dtype = g_.dtype,
                .h = g_.h,
                .w = g_.w,
                .row0 = row0_,
                .column0 = column0_ + b,
                .rows = rows_,
                .columns = width_,
                .step = row_step_,
                .to = memory + b * width_,
                .stride = g_.stride_w});
}

Depthwise::View Depthwise::view() const {
  return {
      g_.dtype, g_.ho, g_.wo, g_.stride_h * row_step_, offset_.data(), tap_.data(), static_cast<int64_t>(tap_.size()),
      places_};
}

void Depthwise::convolve(const void* x, const void* filter, void* y, float* memory, const Finish& finish) const {
  copy(x, memory);
  HWY_DYNAMIC_DISPATCH(convolve_plane)(view(), memory, filter, y, finish);
}

void Depthwise::gradient(const void* x, const void* dy, void* dw, int64_t images, int64_t image_x, int64_t image_y,
                         float* memory) const {
  float* sums = memory + aligned(rows_ * row_step_);
  std::fill_n(sums, static_cast<int64_t>(tap_.size()) * lanes(), 0.0f);
  const int64_t size = size_of(g_.dtype);
  for (int64_t n = 0; n < images; ++n) {
    copy(static_cast<const char*>(x) + n * image_x * size, memory);
    HWY_DYNAMIC_DISPATCH(gradient_plane)(view(), memory, static_cast<const char*>(dy) + n * image_y * size, sums);
  }
  HWY_DYNAMIC_DISPATCH(store_gradient)(view(), sums, dw);
}

}  // namespace duet::engine
#endif
