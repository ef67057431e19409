// SPDX-License-Identifier: Apache-2.0
// max_pool2d and its backward, with vectors of f32. Threads share the rows of y, and backward the rows of dx. nchw:
// vectors run along rows, whose taps rows-inl.h finds; a window is reduced first across, then down. nhwc: vectors run
// along the channels. Backward gathers: each pixel of dx adds what the windows that contain it pass on. So no two
// threads write the same pixel, and the order of additions is fixed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/pool/max_pool2d_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/pool/halves-inl.h"
#include "cpu_ref/pool/rows-inl.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/streaming.h"
#include "ops/pool/compose_training.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
constexpr int32_t kNowhere = INT32_MIN;  // the place of no pixel, nor of one beside a row

// The largest value so far in each lane, and where it lies in its plane.
struct Best {
  hn::Vec<hn::ScalableTag<float>> value;
  hn::Vec<hn::ScalableTag<int32_t>> at;
  HWY_INLINE void update(hn::Vec<hn::ScalableTag<float>> v, hn::Vec<hn::ScalableTag<int32_t>> where) {
    const auto larger = hn::Gt(v, value);
    value = hn::Max(v, value);
    at = hn::IfThenElse(hn::RebindMask(hn::ScalableTag<int32_t>(), larger), where, at);
  }
};
// No value yet: -inf, and the place -1.
HWY_INLINE Best no_value() {
  return {hn::Set(hn::ScalableTag<float>(), -INFINITY), hn::Set(hn::ScalableTag<int32_t>(), -1)};
}
// The vector 0, step, 2 step, ...
HWY_INLINE hn::Vec<hn::ScalableTag<int32_t>> steps(int64_t step) {
  const hn::ScalableTag<int32_t> d;
  return hn::Mul(hn::Iota(d, 0), hn::Set(d, static_cast<int32_t>(step)));
}

// nchw: rows [first, last) of y, counted through all planes. Returns whether a window has no place yet
// (place_infinities()).
template <class T>
bool max_rows(const MaxPool2d& p, const T* x, T* y, int32_t* index, int64_t first, int64_t last, bool far,
              float* scratch) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const PoolScratch s(p);
  const int64_t wo = p.wo();
  const auto step = steps(p.stride_w);
  // The maximum along one row of x.
  const auto across = [&](int64_t row, float* entry, int64_t j, const auto& each_tap) HWY_ATTR {
    Best best = no_value();
    auto at = hn::Add(hn::Set(di, static_cast<int32_t>(row * p.w - p.pad_w + j * p.stride_w)), step);
    each_tap([&](auto tap) HWY_ATTR {
      best.update(tap, at);
      at = hn::Add(at, hn::Set(di, static_cast<int32_t>(p.dil_w)));
    });
    hn::StoreU(best.value, d, entry + j);
    hn::StoreU(best.at, di, reinterpret_cast<int32_t*>(entry + s.comb.outputs) + j);
  };
  // The maximum of those down the window.
  auto lowest = hn::Zero(di);
  const auto down = [&](int64_t o, int64_t, const auto& each_entry) HWY_ATTR {
    for (int64_t j = 0; j < wo; j += lanes) {
      Best best = no_value();
      each_entry([&](const float* entry) HWY_ATTR {
        const auto* places = reinterpret_cast<const int32_t*>(entry + s.comb.outputs);
        best.update(hn::LoadU(d, entry + j), hn::LoadU(di, places + j));
      });
      const int64_t left = wo - j;
      store_f32_as(d, best.value, y + o * wo + j, left);
      if (!index) continue;
      store(di, best.at, index + o * wo + j, left);
      const auto existing = hn::FirstN(di, static_cast<size_t>(std::min(lanes, left)));
      lowest = hn::Min(lowest, hn::IfThenElseZero(existing, best.at));
    }
  };
  pool_rows(p, x, first, last, far, -INFINITY, scratch, across, down);
  return hn::GetLane(hn::MinOfLanes(di, lowest)) < 0;
}

// nhwc: rows [first, last) of y, counted through all images. kStream: all vectors are whole and aligned
// (pixels_are_aligned()). Returns as max_rows() does.
template <bool kStream, class T>
bool max_pixels(const MaxPool2d& p, const T* x, T* y, int32_t* index, int64_t first, int64_t last, bool far) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  auto lowest = hn::Zero(di);
  const auto max = [&]<int kVectors>(const WindowPixels& window, int64_t image, int64_t i, int64_t j, int64_t c,
                                     int64_t left) HWY_ATTR {
    const T* channels = x + image * p.h * p.w * depth + c;
    Best best[kVectors];
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) best[k] = no_value();
    window.each([&](int64_t pixel) HWY_ATTR {
      const T* from = channels + pixel * depth;
      const auto at = hn::Set(di, static_cast<int32_t>(pixel));
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k)
        best[k].update(kVectors == 1 ? load_as_f32(d, from, left) : load_as_f32(d, from + k * lanes), at);
    });
    const int64_t out = ((image * ho + i) * wo + j) * depth + c;
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      store_pixel<kStream>(d, best[k].value, y + out + k * lanes, left - k * lanes);
      if (!index) continue;
      store_pixel<kStream>(di, best[k].at, index + out + k * lanes, left - k * lanes);
      lowest = hn::Min(lowest, best[k].at);  // absent lanes were loaded as 0, above -inf: they have a place
    }
  };
  pool_pixels(p, x, first, last, far, max);
  return hn::GetLane(hn::MinOfLanes(di, lowest)) < 0;
}

// In a window of -inf alone nothing exceeds the start value, so its place is still -1: it gets its first pixel. A
// window without a pixel keeps -1. Rows [first, last) of y, counted through all images.
void place_infinities(const MaxPool2d& p, int32_t* index, int64_t first, int64_t last) {
  const int64_t depth = p.depth(), row_elements = p.wo() * depth;
  for (int64_t o = first; o < last; ++o) {
    int32_t* places = index + o * row_elements;
    for (int64_t k = 0; k < row_elements; ++k) {
      if (places[k] >= 0) continue;
      p.in_window(o % p.ho(), k / depth, [&](int64_t at) {
        if (places[k] < 0) places[k] = static_cast<int32_t>(at);
      });
    }
  }
}

void max_pool2d_rows(const MaxPool2d& p, Args t, int64_t first, int64_t last, bool stream, float* scratch) {
  auto* index = p.indexed ? t[MaxPool2d::index].as<int32_t>() : nullptr;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[MaxPool2d::x].as<const T>();
    auto* y = t[MaxPool2d::y].as<T>();
    if (halves(p)) return max_halves(p, x, y, index, first, last, stream);
    const bool past = stream && pixels_are_aligned(p, y) && pixels_are_aligned(p, index);
    const bool unplaced = p.depth() == 1 ? max_rows(p, x, y, index, first, last, stream, scratch)
                          : past         ? max_pixels<true>(p, x, y, index, first, last, stream)
                                         : max_pixels<false>(p, x, y, index, first, last, stream);
    if (past) hwy::FlushStream();
    if (unplaced) place_infinities(p, index, first, last);
  });
}

// nchw backward: rows [first, last) of dx, counted through all planes. The entry of a row of y is a copy, in which taps
// that reach beyond the row find no place.
template <bool kStream, class T>
void pass_rows(const MaxPool2dBackward& p, const int32_t* index, const T* dy, T* dx, int64_t first, int64_t last,
               float* scratch) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t wo = p.wo();
  const auto step = steps(p.stride_w);
  const UnpoolScratch s(p);
  float *combed = scratch + s.row, *plain = combed + s.comb.floats(), *ring = plain + s.plain;
  const auto places_of = [&](const float* entry) { return reinterpret_cast<const int32_t*>(entry + s.row) + s.margin; };
  for (int64_t i = 0; i < s.ring_rows; ++i) {
    std::fill_n(ring + i * s.entry, s.row, 0.0f);
    std::fill_n(reinterpret_cast<int32_t*>(ring + i * s.entry + s.row), s.row, kNowhere);
  }
  const auto enter = [&](int64_t of_y, int64_t, float* entry) HWY_ATTR {
    auto* places = reinterpret_cast<int32_t*>(entry + s.row) + s.margin;
    for (int64_t j = 0; j < wo; j += lanes) {
      hn::StoreU(load_as_f32(d, dy + of_y * wo + j, wo - j), d, entry + s.margin + j);
      hn::StoreU(load(di, index + of_y * wo + j, wo - j, kNowhere), di, places + j);
    }
  };
  // The comb of a row of dx, which lies in the windows of kHeld rows of y; 0: of any number.
  const auto fill_comb = [&]<int kHeld>(int64_t row, const HeldRows& held) HWY_ATTR {
    add_taps(s.comb, p.s, combed, [&](int64_t tooth, int64_t k, int64_t j) HWY_ATTR {
      const auto here = hn::Add(hn::Set(di, static_cast<int32_t>(row + tooth + k * p.stride_w)), step);
      auto sum = hn::Zero(d);
      const auto add = [&](const float* entry) HWY_ATTR {
        const auto is_here = hn::RebindMask(d, hn::Eq(hn::LoadU(di, places_of(entry) + j), here));
        sum = hn::Add(sum, hn::IfThenElseZero(is_here, hn::LoadU(d, entry + s.margin + j)));
      };
      if constexpr (kHeld == 0) held.each(add);
      for (int i = 0; i < kHeld; ++i) add(held.first[i]);
      return sum;
    });
  };
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto leave = [&](int64_t o, const HeldRows& held) HWY_ATTR {
    const int64_t row = o % p.h * p.w - p.pad_w;
    if (held.count == 1)
      fill_comb.template operator()<1>(row, held);
    else if (held.count == 2)
      fill_comb.template operator()<2>(row, held);
    else
      fill_comb.template operator()<0>(row, held);
    if (p.stride_w > 1) uncomb_row(s.comb, combed, plain);
    const float* const sums = p.stride_w > 1 ? plain : combed + p.pad_w;
    map<kStream>(d, p.w, same, dx + o * p.w, sums);
  };
  unpool_rows(p, s, ring, first, last, enter, leave);
}

// nhwc backward: rows [first, last) of dx, counted through all images.
template <bool kStream, class T>
void pass_pixels(const MaxPool2dBackward& p, const int32_t* index, const T* dy, T* dx, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t ho = p.ho(), wo = p.wo(), depth = p.depth();
  const auto add = [&]<int kVectors>(hn::Vec<decltype(d)>* sum, int64_t image, int64_t i, int64_t j, int64_t position,
                                     int64_t c, int64_t left) HWY_ATTR {
    const auto here = hn::Set(di, static_cast<int32_t>(position));
    const int64_t from = ((image * ho + i) * wo + j) * depth + c;
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      const int32_t* at = index + from + k * lanes;
      const T* dy_at = dy + from + k * lanes;
      const auto is_here = hn::Eq(kVectors == 1 ? load(di, at, left, -1) : hn::LoadU(di, at), here);
      const auto passed = kVectors == 1 ? load_as_f32(d, dy_at, left) : load_as_f32(d, dy_at);
      sum[k] = hn::Add(sum[k], hn::IfThenElseZero(hn::RebindMask(d, is_here), passed));
    }
  };
  unpool_pixels<kStream, false>(p, dx, first, last, add);
}

void max_pool2d_backward_rows(const MaxPool2dBackward& p, Args t, int64_t first, int64_t last, bool stream,
                              float* scratch) {
  const auto* index = t[MaxPool2dBackward::index].as<const int32_t>();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* dy = t[MaxPool2dBackward::dy].as<const T>();
    auto* dx = t[MaxPool2dBackward::dx].as<T>();
    if (halves(p)) return pass_halves(p, index, dy, dx, first, last);
    if (p.depth() == 1) {
      const auto rows = stream ? pass_rows<true, T> : pass_rows<false, T>;
      return rows(p, index, dy, dx, first, last, scratch);
    }
    const auto pixels = stream && pixels_are_aligned(p, dx) ? pass_pixels<true, T> : pass_pixels<false, T>;
    pixels(p, index, dy, dx, first, last);
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(max_pool2d_rows);
HWY_EXPORT(max_pool2d_backward_rows);

Plan max_pool2d_tuned(const MaxPool2d& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream =
      beyond_cache((p.x_elements() + p.y_elements()) * size_of(p.dtype) + (p.indexed ? 4 * p.y_elements() : 0));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, PoolScratch(p).floats);
  return Plan([p, stream, scratch, &cpu](Args t) {
           const int64_t grain = rows_per_chunk(p.stride_h * p.w * p.depth());
           cpu.parallel_for(p.wo() * p.depth() == 0 ? 0 : p.images() * p.ho(), grain, [&](int64_t first, int64_t last) {
             HWY_DYNAMIC_DISPATCH(max_pool2d_rows)(p, t, first, last, stream, scratch.of_this_thread(t));
           });
         })
      .with(std::move(workspace));
}
DUET_REGISTER(max_pool2d_tuned);  // cpu.tuned

Plan max_pool2d_backward_tuned(const MaxPool2dBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache((p.x_elements() + p.y_elements()) * size_of(p.dtype) + 4 * p.y_elements());
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, UnpoolScratch(p).floats);
  return Plan([p, stream, scratch, &cpu](Args t) {
           cpu.parallel_for(p.images() * p.h, rows_per_chunk(p.w * p.depth()), [&](int64_t first, int64_t last) {
             HWY_DYNAMIC_DISPATCH(max_pool2d_backward_rows)(p, t, first, last, stream, scratch.of_this_thread(t));
           });
         })
      .with(std::move(workspace));
}
DUET_REGISTER(max_pool2d_backward_tuned);  // cpu.tuned

Plan max_pool2d_training_tuned(const MaxPool2dTraining& p, CpuContext& cpu) {
  return compose(p, max_pool2d_tuned(p.forward(), cpu), max_pool2d_backward_tuned(p.backward(), cpu));
}
DUET_REGISTER(max_pool2d_training_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
