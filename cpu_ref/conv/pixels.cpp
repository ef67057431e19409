// SPDX-License-Identifier: Apache-2.0
// Pixels (pixels.h) of nchw, with vectors; copies of planes; and col2im in both layouts. The matrix engine calls the
// packing for one strip (neighbouring lines) at a time and divides strips among threads.
//
// A strip of pixels consists of runs, each within one row of the result. Under one tap (r, s), a run is a window of a
// row of the image, the same in every channel; what lies outside the image is masked to 0 (copy_run). A strip that lies
// inside the image under every tap, which all do without padding, is permuted from whole vectors instead (pack_inside).
// pixels_nhwc.cpp packs channels-last images.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/pixels.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "cpu_ref/conv/pixels.h"
#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: Bits, widen, store, for_float

using D = hn::ScalableTag<float>;
constexpr D d;
constexpr int64_t kLanes = hn::MaxLanes(d);

// Loads a vector of which only the lanes [low, high) exist; the others are 0.
template <class DT>
struct Window {
  DT dt;
#if HWY_TARGET <= HWY_AVX3
  hn::Mask<DT> mask;
  Window() = default;
  Window(int64_t low, int64_t high)
      : mask(hn::AndNot(hn::FirstN(dt, static_cast<size_t>(std::clamp<int64_t>(low, 0, kLanes))),
                        hn::FirstN(dt, static_cast<size_t>(std::clamp<int64_t>(high, 0, kLanes))))) {}
  HWY_INLINE hn::Vec<DT> operator()(const hn::TFromD<DT>* p) const { return hn::MaskedLoad(mask, dt, p); }
#else  // here a masked load may touch what is masked
  int64_t low, high;
  Window() = default;
  Window(int64_t low_, int64_t high_)
      : low(std::clamp<int64_t>(low_, 0, kLanes)), high(std::clamp<int64_t>(high_, low, kLanes)) {}
  HWY_INLINE hn::Vec<DT> operator()(const hn::TFromD<DT>* p) const {
    if (low == 0 && high == kLanes) return hn::LoadU(dt, p);
    HWY_ALIGN hn::TFromD<DT> lanes[kLanes] = {};
    for (int64_t i = low; i < high; ++i) lanes[i] = p[i];
    return hn::Load(dt, lanes);
  }
#endif
};

template <class T>
HWY_INLINE hn::Vec<D> to_f32(hn::Vec<hn::Rebind<Bits<T>, D>> v) {
  if constexpr (is_half<T>)
    return widen<T>(d, v);
  else
    return v;
}

// A run under one tap, in all channels of this block of k. Value j of the run is x[channel * plane + j * stride] where
// 0 <= column + j * stride < width, else 0. It goes to to[channel * step + j].
struct Run {
  int64_t count, room;  // room: floats that may be written at `to`; those beyond count are overwritten later
  int64_t channels, plane, stride, column, width, step;
  const void* x;
  float* to;
};

// Windows are whole vectors with stride 1, the even elements of two vectors with stride 2, and single elements
// otherwise.
template <class T>
void copy_run(const Run& r) {
  using DT = hn::Rebind<Bits<T>, D>;
  const auto* x = static_cast<const T*>(r.x);
  for (int64_t j = 0; j < r.count; j += kLanes) {
    const int64_t first = r.column + j * r.stride, room = r.room - j;
    const T* from = x + j * r.stride;
    float* to = r.to + j;
    const Window<DT> window(-first, r.width - first);
    if (r.stride == 1) {
      for (int64_t c = 0; c < r.channels; ++c)
        store(d, to_f32<T>(window(bits_of(from + c * r.plane))), to + c * r.step, room);
#if HWY_TARGET != HWY_SCALAR
    } else if (r.stride == 2) {
      const Window<DT> second(-first - kLanes, r.width - first - kLanes);
      for (int64_t c = 0; c < r.channels; ++c) {
        const T* at = from + c * r.plane;
        const auto even = hn::ConcatEven(d, to_f32<T>(second(bits_of(at + kLanes))), to_f32<T>(window(bits_of(at))));
        store(d, even, to + c * r.step, room);
      }
#endif
    } else {
      for (int64_t c = 0; c < r.channels; ++c)
        for (int64_t i = 0; i < std::min(kLanes, r.count - j); ++i) {
          const int64_t column = first + i * r.stride;
          const bool inside = column >= 0 && column < r.width;
          to[c * r.step + i] = inside ? static_cast<float>(from[c * r.plane + i * r.stride]) : 0.0f;
        }
    }
  }
}

// See Columns. A vector of columns at a time: the windows of the taps across are the same for all rows and channels.
template <class T>
void add_taps_of(const Columns& c) {
  using DF = hn::ScalableTag<float>;
  const size_t taps_across = c.across.size();
  const auto taps_down = static_cast<int64_t>(c.down.size()),
             row_of_taps = static_cast<int64_t>(taps_across) * c.tap_step;
  const int64_t channel_step = taps_down * row_of_taps, plane = c.h * c.w;
  for (int64_t q = 0; q < c.w; q += kLanes) {
    Window<DF> windows[Columns::kMaxTapsAcross];
    int64_t offset[Columns::kMaxTapsAcross];
    for (size_t s = 0; s < taps_across; ++s) {
      windows[s] = Window<DF>(c.across[s] - q, c.wo + c.across[s] - q);
      offset[s] = static_cast<int64_t>(s) * c.tap_step + q - c.across[s];
    }
    for (int64_t channel = 0; channel < c.channels; ++channel)
      for (int64_t image = 0; image < c.images; ++image) {
        const float* from = c.columns + channel * channel_step + image * c.ho * c.wo;
        T* to = static_cast<T*>(c.to) + image * c.image_step + channel * plane + q;
        for (int64_t p = 0; p < c.h; ++p) {
          // Sum over taps.
          auto sum = hn::Zero(d);
          for (int64_t r = 0; r < taps_down; ++r) {
            const int64_t i = p - c.down[static_cast<size_t>(r)];
            if (i < 0 || i >= c.ho) continue;
            const float* row = from + r * row_of_taps + i * c.wo;
            for (size_t s = 0; s < taps_across; ++s) sum = hn::Add(sum, windows[s](row + offset[s]));
          }
          // Masked stores are slow. So a narrow row is stored as a whole vector, and what that writes into the next row
          // is overwritten when the next row is stored.
          const bool whole = c.w <= kLanes && p * c.w + kLanes <= plane;
          store_f32_as(d, sum, to + p * c.w, whole ? kLanes : c.w - q);
        }
      }
  }
}

// nhwc: vectors run along the channels.
template <class T>
void add_taps_of_pixels(const Columns& c) {
  const auto taps_down = static_cast<int64_t>(c.down.size()), taps_across = static_cast<int64_t>(c.across.size());
  const int64_t of_pixel = taps_down * taps_across * c.channels;
  for (int64_t row = 0; row < c.images * c.h; ++row) {
    const int64_t image = row / c.h, p = row % c.h;
    T* to = static_cast<T*>(c.to) + image * c.image_step + p * c.w * c.pixel_step;
    for (int64_t q = 0; q < c.w; ++q, to += c.pixel_step) {
      // The taps that have a column for the pixel; across ascends.
      int64_t s0 = 0, s1 = taps_across;
      while (s1 > 0 && q < c.across[static_cast<size_t>(s1 - 1)]) --s1;
      while (s0 < s1 && q - c.across[static_cast<size_t>(s0)] >= c.wo) ++s0;
      const auto block = [&]<int kVectors>(int64_t channel, int64_t left) HWY_ATTR {
        hn::Vec<decltype(d)> sum[kVectors];
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) sum[k] = hn::Zero(d);
        for (int64_t r = 0; r < taps_down; ++r) {
          const int64_t i = p - c.down[static_cast<size_t>(r)];
          if (i < 0 || i >= c.ho) continue;
          const float* from = c.columns + (image * c.ho + i) * c.wo * of_pixel + r * taps_across * c.channels + channel;
          for (int64_t s = s0; s < s1; ++s) {
            const float* tap = from + (q - c.across[static_cast<size_t>(s)]) * of_pixel + s * c.channels;
#pragma GCC unroll 4
            for (int k = 0; k < kVectors; ++k)
              sum[k] = hn::Add(sum[k], kVectors == 1 ? load(d, tap, left, 0.0f) : hn::LoadU(d, tap + k * kLanes));
          }
        }
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) store_f32_as(d, sum[k], to + channel + k * kLanes, left - k * kLanes);
      };
      int64_t channel = 0;
      for (; channel + 4 * kLanes <= c.channels; channel += 4 * kLanes)
        block.template operator()<4>(channel, 4 * kLanes);
      for (; channel + 2 * kLanes <= c.channels; channel += 2 * kLanes)
        block.template operator()<2>(channel, 2 * kLanes);
      for (; channel < c.channels; channel += kLanes)
        block.template operator()<1>(channel, std::min<int64_t>(kLanes, c.channels - channel));
    }
  }
}
void add_taps_any(const Columns& c) {
  for_float(c.dtype, [&]<class T>() { c.pixel_step == 0 ? add_taps_of<T>(c) : add_taps_of_pixels<T>(c); });
}

// See Plane.
void plane_with_border(const Plane& p) {
  const int64_t above = std::clamp<int64_t>(-p.row0, 0, p.rows), end = std::clamp<int64_t>(p.h - p.row0, above, p.rows);
  for (int64_t i = 0; i < p.rows; ++i)
    if (i < above || i >= end) std::fill_n(p.to + i * p.step, p.columns, 0.0f);
  if (p.stride == 1) {  // row by row, in the order of memory
    const int64_t left = std::clamp<int64_t>(-p.column0, 0, p.columns),
                  right = std::clamp<int64_t>(p.w - p.column0, left, p.columns);
    const auto same = [](auto v) HWY_ATTR { return v; };
    for_float(p.dtype, [&]<class T>() HWY_ATTR {
      const T* x = static_cast<const T*>(p.x) + (p.row0 + above) * p.w + p.column0;
      for (int64_t i = above; i < end; ++i, x += p.w) {
        float* to = p.to + i * p.step;
        std::fill_n(to, left, 0.0f);
        map<false>(d, right - left, same, to + left, x + left);
        std::fill_n(to + right, p.columns - right, 0.0f);
      }
    });
    return;
  }
  const Run rows{.count = p.columns,
                 .room = p.columns,
                 .channels = end - above,
                 .plane = p.w,
                 .stride = p.stride,
                 .column = p.column0,
                 .width = p.w,
                 .step = p.step,
                 .x = static_cast<const char*>(p.x) + ((p.row0 + above) * p.w + p.column0) * size_of(p.dtype),
                 .to = p.to + above * p.step};
  for_float(p.dtype, [&]<class T>() { copy_run<T>(rows); });
}

#if HWY_TARGET != HWY_SCALAR
// Where the pixels of a vector lie in the image, under any tap: the first one `at` elements from the pointer of the
// tap, the others lane[i] elements further. adjacent: one whole vector. near: all in two neighbouring vectors, as rows
// of short images are. far: anywhere.
struct Move {
  enum Kind : uint8_t { adjacent, near, far } kind;
  int64_t at;
  HWY_ALIGN int32_t lane[kLanes];
};

// Packs a strip of one or two vectors all of whose values lie in the image. end: the end of the image data, beyond
// which no vector may be loaded.
template <class T>
void pack_inside(const Gather& g, const T* x, const T* end, const Move* moves, int64_t height, int64_t k0, int64_t k1,
                 float* to) {
  const hn::RebindToSigned<D> di;
  const int64_t taps = g.taps(), plane = g.h * g.w;
  const auto taps_across = static_cast<int64_t>(g.across.size());
  // Calls f(from) for each k in turn. The pixels of the strip lie at from + moves[...].
  const auto for_each_k = [&](const auto& f) HWY_ATTR {
    int64_t channel = k0 / taps, r = k0 % taps / taps_across, s = k0 % taps_across;
    for (int64_t k = k0; k < k1; ++k) {
      f(x + channel * plane + g.down[static_cast<size_t>(r)] * g.w + g.across[static_cast<size_t>(s)]);
      if (++s == taps_across) {
        s = 0;
        if (++r * taps_across == taps) {
          r = 0;
          ++channel;
        }
      }
    }
  };
  const bool two = height > kLanes;
  const Move &move0 = moves[0], &move1 = moves[two ? 1 : 0];
  const auto mask = hn::Set(di, kLanes - 1), lane0 = hn::Load(di, move0.lane), lane1 = hn::Load(di, move1.lane);
  const auto which0 = hn::IndicesFromVec(d, hn::And(lane0, mask)), which1 = hn::IndicesFromVec(d, hn::And(lane1, mask));
  const auto second0 = hn::RebindMask(d, hn::Gt(lane0, mask)), second1 = hn::RebindMask(d, hn::Gt(lane1, mask));

  // Where no vector can reach beyond the end: two loads and a permutation for each vector. Taps ascend or descend, so
  // the furthest one is the first or the last.
  const int64_t last_tap = g.down.back() * g.w + g.across.back();
  const int64_t first_tap = g.down.front() * g.w + g.across.front();
  const int64_t furthest =
      (g.depth - 1) * plane + std::max(first_tap, last_tap) + std::max(move0.at, move1.at) + 2 * kLanes;
  if (move0.kind != Move::far && move1.kind != Move::far && x + furthest <= end) {
    const auto pick = [&](const T* p, auto which, auto second) HWY_ATTR {
      return hn::IfThenElse(second, hn::TableLookupLanes(load_as_f32(d, p + kLanes), which),
                            hn::TableLookupLanes(load_as_f32(d, p), which));
    };
    return for_each_k([&](const T* from) HWY_ATTR {
      hn::StoreU(pick(from + move0.at, which0, second0), d, to);
      if (two) hn::StoreU(pick(from + move1.at, which1, second1), d, to + kLanes);
      to += height;
    });
  }
  // Otherwise each vector by its kind, with loads that stop at the end.
  const auto load_to_end = [&](const T* p) HWY_ATTR {
    return HWY_LIKELY(p + kLanes <= end) ? load_as_f32(d, p) : load_as_f32(d, p, std::max<int64_t>(0, end - p));
  };
  for_each_k([&](const T* from) HWY_ATTR {
    for (int64_t i = 0; i < height; i += kLanes, to += kLanes) {
      const Move& move = moves[i / kLanes];
      const T* p = from + move.at;
      if (move.kind == Move::adjacent) {
        hn::StoreU(load_to_end(p), d, to);
      } else if (move.kind == Move::near) {
        const auto second = i == 0 ? second0 : second1;
        const auto low = i == 0 ? which0 : which1;
        hn::StoreU(hn::IfThenElse(second, hn::TableLookupLanes(load_to_end(p + kLanes), low),
                                  hn::TableLookupLanes(load_to_end(p), low)),
                   d, to);
      } else {
        for (int64_t q = 0; q < kLanes; ++q) to[q] = static_cast<float>(p[move.lane[q]]);
      }
    }
  });
}

// Packs the strip with pack_inside if all its values lie in the image; returns whether they do.
bool try_pack_inside(const Gather& g, const char* x, int64_t line0, int64_t lines, int64_t height, int64_t k0,
                     int64_t k1, float* to) {
  const auto [up, low] = std::minmax_element(g.down.begin(), g.down.end());
  const auto [left, right] = std::minmax_element(g.across.begin(), g.across.end());
  if ((height != kLanes && height != 2 * kLanes) || g.channels * g.h * g.w > INT32_MAX / 4) return false;
  // Where each pixel lies, run by run.
  int64_t image = line0 / g.wo / g.ho, i = line0 / g.wo % g.ho, j = line0 % g.wo;
  int64_t at[kMaxHeight];
  for (int64_t done = 0; done < lines;) {
    const int64_t count = std::min(g.wo - j, lines - done), row = i * g.stride_h, column = j * g.stride_w;
    const int64_t last = column + (count - 1) * g.stride_w;
    if (row + *up < 0 || row + *low >= g.h || column + *left < 0 || last + *right >= g.w) return false;
    const int64_t first = (image * g.channels * g.h + row) * g.w + column;
    for (int64_t q = 0; q < count; ++q) at[done + q] = first + q * g.stride_w;
    done += count;
    j = 0;
    if (++i == g.ho) {
      i = 0;
      ++image;
    }
  }
  for (int64_t q = lines; q < height; ++q) at[q] = at[lines - 1];  // lines that do not exist repeat the last one
  Move moves[2];
  for (int64_t v = 0; v < height; v += kLanes) {
    Move& move = moves[v / kLanes];
    move.at = at[v];
    bool adjacent = true;
    for (int64_t q = 0; q < kLanes; ++q) {
      move.lane[q] = static_cast<int32_t>(at[v + q] - at[v]);
      adjacent &= move.lane[q] == q;
    }
    move.kind = adjacent ? Move::adjacent : at[v + kLanes - 1] - at[v] < 2 * kLanes ? Move::near : Move::far;
  }
  const int64_t elements =
      ((g.images - 1) * g.channels + g.depth) * g.h * g.w;  // up to the end of the group in the last image
  for_float(g.dtype, [&]<class T>() {
    const auto* first = reinterpret_cast<const T*>(x);
    pack_inside(g, first, first + elements, moves, height, k0, k1, to);
  });
  return true;
}
#else
bool try_pack_inside(const Gather&, const char*, int64_t, int64_t, int64_t, int64_t, int64_t, float*) { return false; }
#endif

// Packs the strip of pixels [line0, line0 + lines) of an nchw image; see Operand::pack.
void pack_nchw(const Gather& g, const char* x, int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1,
               float* to) {
  if (try_pack_inside(g, x, line0, lines, height, k0, k1, to)) return;
  const int64_t taps = g.taps(), plane = g.h * g.w, size = size_of(g.dtype);
  const auto taps_across = static_cast<int64_t>(g.across.size());
  if (lines < height)
    for (int64_t k = k0; k < k1; ++k) std::fill_n(to + (k - k0) * height + lines, height - lines, 0.0f);
  for (int64_t done = 0; done < lines;) {
    const int64_t line = line0 + done, image = line / g.wo / g.ho, i = line / g.wo % g.ho, j = line % g.wo;
    const int64_t count = std::min(g.wo - j, lines - done);
    const bool last = done + count == lines;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t c0 = k0 <= tap ? 0 : ceil_div(k0 - tap, taps), c1 = k1 <= tap ? 0 : ceil_div(k1 - tap, taps);
      if (c1 <= c0) continue;
      const int64_t row = i * g.stride_h + g.down[static_cast<size_t>(tap / taps_across)];
      const int64_t column = j * g.stride_w + g.across[static_cast<size_t>(tap % taps_across)];
      const bool inside = row >= 0 && row < g.h;
      const Run run{.count = count,
                    .room = last ? count : height - done,
                    .channels = c1 - c0,
                    .plane = plane,
                    .stride = g.stride_w,
                    .column = column,
                    .width = inside ? g.w : INT64_MIN / 4,
                    .step = taps * height,
                    .x = x + ((image * g.channels + c0) * plane + (inside ? row * g.w + column : 0)) * size,
                    .to = to + (c0 * taps + tap - k0) * height + done};
      for_float(g.dtype, [&]<class T>() { copy_run<T>(run); });
    }
    done += count;
  }
}

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::engine {
namespace {
HWY_EXPORT(pack_nchw);
HWY_EXPORT(plane_with_border);
HWY_EXPORT(add_taps_any);
}  // namespace

Gather Gather::forward(const Conv2d& p) {
  Gather g{.dtype = p.dtype,
           .channels_last = p.layout == Layout::nhwc,
           .images = p.n,
           .channels = p.c,
           .h = p.h,
           .w = p.w,
           .depth = p.group_c(),
           .ho = p.ho(),
           .wo = p.wo(),
           .stride_h = p.stride_h,
           .stride_w = p.stride_w,
           .down = {},
           .across = {}};
  for (int64_t r = 0; r < p.r; ++r) g.down.push_back(r * p.dil_h - p.pad_h);
  for (int64_t s = 0; s < p.s; ++s) g.across.push_back(s * p.dil_w - p.pad_w);
  return g;
}

void Pixels::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  if (g_->channels_last) return pack_nhwc(line0, lines, height, k0, k1, false, to);
  HWY_DYNAMIC_DISPATCH(pack_nchw)(*g_, x_, line0, lines, height, k0, k1, to);
}

void add_taps(const Columns& columns) { HWY_DYNAMIC_DISPATCH(add_taps_any)(columns); }
void copy_plane(const Plane& plane) { HWY_DYNAMIC_DISPATCH(plane_with_border)(plane); }

}  // namespace duet::engine
#endif
