// SPDX-License-Identifier: Apache-2.0
// max_pool2d and avg_pool2d for windows of 2 x 2 side by side, the pool of most CNNs: each pixel lies in at most one
// window, so rows need no comb and nothing is kept from window to window. Called by max_pool2d_tuned.cpp and
// avg_pool2d_tuned.cpp, which say how work is divided. Include after foreach_target.
#if defined(DUET_CPU_REF_POOL_HALVES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_POOL_HALVES_INL_H_
#undef DUET_CPU_REF_POOL_HALVES_INL_H_
#else
#define DUET_CPU_REF_POOL_HALVES_INL_H_
#endif
#include <algorithm>

#include "cpu_ref/pairs-inl.h"
#include "cpu_ref/prefetch.h"
#include "ops/pool/pool2d.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE bool are_halves(const Pool2d& p) {
  return p.r == 2 && p.s == 2 && p.stride_h == 2 && p.stride_w == 2 && p.pad_h == 0 && p.pad_w == 0 && p.dil_h == 1 &&
         p.dil_w == 1;
}
// Whether these functions serve p: those of nchw, and those of nhwc.
HWY_INLINE bool halves(const Pool2d& p) { return are_halves(p) && p.depth() == 1; }
HWY_INLINE bool pixel_halves(const Pool2d& p) { return are_halves(p) && p.depth() != 1; }

// The functions of nchw are called for rows [first, last) of their result, counted through all planes. The last vector
// of a row may reach into the rows after it, so that it is a whole one: what it loads there is not used, and what it
// stores there is overwritten when the next row is written, as it lies before `last`. In a backward pass it does so
// where every pixel lies in a window; a pixel beyond them gets 0. far: x is beyond the caches.

// Maxima.
template <class T>
void max_halves(const Pool2d& p, const T* x, T* y, int32_t* index, int64_t first, int64_t last, bool far) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo();
  const auto twice = hn::ShiftLeft<1>(hn::Iota(di, 0));
  const T* const end = x + p.x_elements();
  for (int64_t o = first; o < last; ++o) {
    const int64_t plane = o / ho, row = o % ho * 2;
    const T* pixels = x + (plane * p.h + row) * p.w;
    if (far) prefetch(pixels + 2 * p.w + kPrefetchAhead, 2 * p.w);
    for (int64_t j = 0; j < wo; j += lanes) {
      // The four pixels of each window; unrolled, so that they stay in registers.
      hn::Vec<decltype(d)> v[4];
#pragma GCC unroll 2
      for (int64_t a = 0; a < 2; ++a) {
        const T* from = pixels + a * p.w + 2 * j;
        load_pairs(d, from, end - from, v[2 * a], v[2 * a + 1]);
      }
      // The largest, the first of equal ones, and its place in the plane.
      auto value = v[0];
      auto at = hn::Add(hn::Set(di, static_cast<int32_t>(row * p.w + 2 * j)), twice);
      for (int64_t k = 1; k < 4; ++k) {
        const auto here = hn::Add(hn::Set(di, static_cast<int32_t>((row + k / 2) * p.w + 2 * j + k % 2)), twice);
        at = hn::IfThenElse(hn::RebindMask(di, hn::Gt(v[k], value)), here, at);
        value = hn::Max(v[k], value);
      }
      store_f32_as(d, value, y + o * wo + j, (last - o) * wo - j);
      if (index) store(di, at, index + o * wo + j, (last - o) * wo - j);
    }
  }
}

// Their backward.
template <class T>
void pass_halves(const Pool2d& p, const int32_t* index, const T* dy, T* dx, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), elements = p.y_elements();
  const bool whole = p.w == 2 * wo;
  const auto twice = hn::ShiftLeft<1>(hn::Iota(di, 0));
  for (int64_t o = first; o < last; ++o) {
    const int64_t plane = o / p.h, row = o % p.h;
    const int64_t windows = row / 2 < ho ? wo : 0, from = (plane * ho + row / 2) * wo;
    T* to = dx + o * p.w;
    for (int64_t j = 0; 2 * j < p.w; j += lanes) {  // pixels beyond the last window get 0
      const int64_t left = whole && windows > 0 ? elements - from - j : std::max<int64_t>(0, windows - j);
      auto even = hn::Zero(d), odd = even;
      if (left > 0) {
        const auto at = load(di, index + from + j, left, -1);
        const auto passed = load_as_f32(d, dy + from + j, left);
        const auto here = hn::Add(hn::Set(di, static_cast<int32_t>(row * p.w + 2 * j)), twice);
        even = hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(at, here)), passed);
        odd = hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(at, hn::Add(here, hn::Set(di, 1)))), passed);
      }
      store_pairs(d, even, odd, to + 2 * j, (last - o) * p.w - 2 * j);
    }
  }
}

// Means. Without a pad every window has four pixels.
template <class T>
void mean_halves(const Pool2d& p, const T* x, T* y, int64_t first, int64_t last, bool far) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo();
  const auto quarter = hn::Set(d, 0.25f);
  const T* const end = x + p.x_elements();
  for (int64_t o = first; o < last; ++o) {
    const T* pixels = x + (o / ho * p.h + o % ho * 2) * p.w;
    if (far) prefetch(pixels + 2 * p.w + kPrefetchAhead, 2 * p.w);
    for (int64_t j = 0; j < wo; j += lanes) {
      hn::Vec<decltype(d)> v[4];
#pragma GCC unroll 2
      for (int64_t a = 0; a < 2; ++a) {
        const T* from = pixels + a * p.w + 2 * j;
        load_pairs(d, from, end - from, v[2 * a], v[2 * a + 1]);
      }
      const auto sum = hn::Add(hn::Add(v[0], v[1]), hn::Add(v[2], v[3]));
      store_f32_as(d, hn::Mul(sum, quarter), y + o * wo + j, (last - o) * wo - j);
    }
  }
}

// Their backward.
template <class T>
void spread_halves(const Pool2d& p, const T* dy, T* dx, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo();
  const bool whole = p.w == 2 * wo;
  const auto quarter = hn::Set(d, 0.25f);
  const T* const end = dy + p.y_elements();
  for (int64_t o = first; o < last; ++o) {
    const int64_t row = o % p.h;
    const int64_t windows = row / 2 < ho ? wo : 0;
    const T* from = dy + (o / p.h * ho + row / 2) * wo;
    T* to = dx + o * p.w;
    for (int64_t j = 0; 2 * j < p.w; j += lanes) {  // pixels beyond the last window get 0
      const int64_t left = whole && windows > 0 ? end - from - j : windows - j;
      const auto v = left > 0 ? hn::Mul(load_as_f32(d, from + j, left), quarter) : hn::Zero(d);
      store_pairs(d, v, v, to + 2 * j, (last - o) * p.w - 2 * j);
    }
  }
}

// The same two for nhwc, for rows [first, last) of the result, counted through all images. Vectors run along the
// channels and end with their pixel. kStream: all are whole and aligned (pixels_are_aligned()).
template <bool kStream, class T>
void mean_pixel_halves(const Pool2d& p, const T* x, T* y, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  const auto quarter = hn::Set(d, 0.25f);
  for (int64_t o = first; o < last; ++o) {
    const T* const above = x + (o / ho * p.h + o % ho * 2) * p.w * depth;
    for (int64_t j = 0; j < wo; ++j) {
      const T *const top = above + 2 * j * depth, *const bottom = top + p.w * depth;
      T* const to = y + (o * wo + j) * depth;
      int64_t c = 0;
      for (; c + lanes <= depth; c += lanes) {
        const auto of_top = hn::Add(load_as_f32(d, top + c), load_as_f32(d, top + depth + c));
        const auto of_bottom = hn::Add(load_as_f32(d, bottom + c), load_as_f32(d, bottom + depth + c));
        stream_store<kStream>(d, hn::Mul(hn::Add(of_top, of_bottom), quarter), to + c);
      }
      if (const int64_t left = depth - c; left > 0) {
        const auto of_top = hn::Add(load_as_f32(d, top + c, left), load_as_f32(d, top + depth + c, left));
        const auto of_bottom = hn::Add(load_as_f32(d, bottom + c, left), load_as_f32(d, bottom + depth + c, left));
        store_f32_as(d, hn::Mul(hn::Add(of_top, of_bottom), quarter), to + c, left);
      }
    }
  }
}

template <bool kStream, class T>
void spread_pixel_halves(const Pool2d& p, const T* dy, T* dx, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  const auto quarter = hn::Set(d, 0.25f);
  for (int64_t o = first; o < last; ++o) {
    const int64_t row = o % p.h, windows = row / 2 < ho ? wo : 0;
    const T* from = dy + (o / p.h * ho + row / 2) * wo * depth;
    T* to = dx + o * p.w * depth;
    for (int64_t j = 0; j < windows; ++j, from += depth, to += 2 * depth) {
      int64_t c = 0;
      for (; c + lanes <= depth; c += lanes) {
        const auto v = hn::Mul(load_as_f32(d, from + c), quarter);
        stream_store<kStream>(d, v, to + c);
        stream_store<kStream>(d, v, to + depth + c);
      }
      if (const int64_t left = depth - c; left > 0) {
        const auto v = hn::Mul(load_as_f32(d, from + c, left), quarter);
        store_f32_as(d, v, to + c, left);
        store_f32_as(d, v, to + depth + c, left);
      }
    }
    std::fill(to, dx + (o + 1) * p.w * depth, T{});  // pixels in no window
  }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
