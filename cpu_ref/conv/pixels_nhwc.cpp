// SPDX-License-Identifier: Apache-2.0
// Packing of channels-last images with vectors, and of filters (pixels.h). What a pixel reads under one tap is a row of
// channels. The matrix engine calls this for one strip (neighbouring lines) at a time and divides strips among
// threads. bf16 stays bf16 in pairs (Operand::pack_pairs): of channels, which are adjacent in memory, or of pixels or
// output channels, whose rows are combined.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/pixels_nhwc.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "cpu_ref/conv/pixels.h"
#include "cpu_ref/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: load_as_f32, load, store, for_float

using D = hn::ScalableTag<float>;
constexpr D d;
constexpr int64_t kLanes = hn::MaxLanes(d);

// to[i] = the pair of low[i] and high[i], for i < count.
HWY_INLINE void zip(const uint16_t* low, const uint16_t* high, int64_t count, float* to) {
  const hn::Rebind<uint16_t, D> d16;
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto first = load(d16, low + i, count - i, uint16_t{0});
    const auto second = load(d16, high + i, count - i, uint16_t{0});
    store(d, hn::BitCast(d, join_pairs(d, first, second)), to + i, count - i);
  }
}

// What pixels read under the taps of some neighbouring lines (tap, channel): `count` values from `channel` of `tap` on,
// of taps side by side.
template <class T>
struct TapRun {
  const Gather& g;
  const T* x;
  int64_t tap, channel, count, down, across, taps;

  TapRun(const Gather& gather, const T* image, int64_t line, int64_t lines)
      : g(gather), x(image), tap(line / g.depth), channel(line % g.depth) {
    const auto taps_across = static_cast<int64_t>(g.across.size());
    count = std::min(lines, g.side_by_side(tap) * g.depth - channel);
    down = g.down[static_cast<size_t>(tap / taps_across)];
    across = g.across[static_cast<size_t>(tap % taps_across)];
    taps = (channel + count - 1) / g.depth + 1;
  }
  // The values of a pixel; where a part of them lies outside the image, in `edge`, with zeros.
  HWY_INLINE const T* of(const ResultPixel& pixel, T* edge) const {
    const int64_t row = pixel.i * g.stride_h + down, column = pixel.j * g.stride_w + across;
    const bool row_inside = row >= 0 && row < g.h;
    const T* from = x + ((pixel.image * g.h + row) * g.w + column) * g.channels + channel;
    if (HWY_LIKELY(row_inside && column >= 0 && column + taps <= g.w)) return from;
    std::fill_n(edge, count, T{});
    // From the first tap inside to the last.
    const int64_t begin = std::max<int64_t>(0, -column * g.depth - channel);
    const int64_t end = std::min(count, (g.w - column) * g.depth - channel);
    if (row_inside && begin < end) std::copy(from + begin, from + end, edge + begin);
    return edge;
  }
};

// Packs the lines (tap, channel) [line0, line0 + lines) for the pixels [k0, k1); see Inputs.
template <class T>
void pack_inputs_of(const Gather& g, const T* x, int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1,
                    float* to) {
  if (lines < height)
    for (int64_t k = k0; k < k1; ++k) std::fill_n(to + (k - k0) * height + lines, height - lines, 0.0f);
  T edge[kMaxHeight];
  for (int64_t done = 0; done < lines;) {
    const TapRun<T> run(g, x, line0 + done, lines - done);
    ResultPixel pixel(g, k0);
    for (int64_t k = k0; k < k1; ++k, pixel.next()) {
      const T* from = run.of(pixel, edge);
      float* at = to + (k - k0) * height + done;
      for (int64_t c = 0; c < run.count; c += kLanes)
        store(d, load_as_f32(d, from + c, run.count - c), at + c, run.count - c);
    }
    done += run.count;
  }
}
void pack_inputs(const Gather& g, const void* x, int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1,
                 float* to) {
  for_float(g.dtype, [&]<class T>() { pack_inputs_of(g, static_cast<const T*>(x), line0, lines, height, k0, k1, to); });
}

// The same for pairs of pixels [k0, k1) of bf16; there are k pixels.
void pack_input_pairs(const Gather& g, const void* x, int64_t line0, int64_t lines, int64_t height, int64_t k0,
                      int64_t k1, int64_t k, float* to) {
  if (lines < height)
    for (int64_t p = k0; p < k1; ++p) std::fill_n(to + (p - k0) * height + lines, height - lines, 0.0f);
  static constexpr uint16_t kNone[kMaxHeight] = {};
  uint16_t edge[2][kMaxHeight];
  for (int64_t done = 0; done < lines;) {
    const TapRun<uint16_t> run(g, static_cast<const uint16_t*>(x), line0 + done, lines - done);
    ResultPixel pixel(g, 2 * k0);
    for (int64_t p = k0; p < k1; ++p, pixel.next()) {
      const uint16_t* low = run.of(pixel, edge[0]);
      pixel.next();
      const uint16_t* high = 2 * p + 1 < k ? run.of(pixel, edge[1]) : kNone;
      zip(low, high, run.count, to + (p - k0) * height + done);
    }
    done += run.count;
  }
}

// Packs pairs of output channels [k0, k1) of an nhwc filter; see TransposedFilter.
void pack_filter_pairs(const Conv2d& p, const std::vector<int64_t>& taps, const void* filter, int64_t line0,
                       int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) {
  const int64_t depth = p.group_c(), outputs = p.group_k(), all = p.r * p.s;
  int64_t tap = 2 * k0 / outputs, out = 2 * k0 % outputs;
  for (int64_t k = k0; k < k1; ++k, to += height) {
    const int64_t row = out * all + taps[static_cast<size_t>(tap)];
    const uint16_t* from = static_cast<const uint16_t*>(filter) + row * depth + line0;
    zip(from, from + all * depth, lines, to);
    std::fill_n(to + lines, height - lines, 0.0f);
    out += 2;
    if (out == outputs) {
      out = 0;
      ++tap;
    }
  }
}

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::engine {
namespace {
HWY_EXPORT(pack_inputs);
HWY_EXPORT(pack_input_pairs);
HWY_EXPORT(pack_filter_pairs);
alignas(64) constexpr float kZeros[1024] = {};  // the channels of a pixel outside the image

// Packs the filter: to[p * height + i] = value p of line i; see TransposedFilter.
template <class T>
void pack_transposed(const Conv2d& p, const std::vector<int64_t>& taps, const T* filter, int64_t line0, int64_t lines,
                     int64_t height, int64_t k0, int64_t k1, float* to) {
  const bool last = p.layout == Layout::nhwc;
  const auto count = static_cast<int64_t>(taps.size());
  const int64_t depth = p.group_c(), outputs = p.group_k(), all = p.r * p.s, step = last ? 1 : all;
  int64_t tap = last ? k0 / outputs : k0 % count, out = last ? k0 % outputs : k0 / count;
  for (int64_t k = k0; k < k1; ++k, to += height) {
    const int64_t t = taps[static_cast<size_t>(tap)];
    const T* from = filter + (last ? (out * all + t) * depth + line0 : (out * depth + line0) * all + t);
    for (int64_t i = 0; i < lines; ++i) to[i] = static_cast<float>(from[i * step]);
    for (int64_t i = lines; i < height; ++i) to[i] = 0;
    if (last) {
      if (++out == outputs) {
        out = 0;
        ++tap;
      }
    } else if (++tap == count) {
      tap = 0;
      ++out;
    }
  }
}
}  // namespace

void Pixels::pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t,
                        float* to) const {
  pack_nhwc(line0, lines, height, 2 * k0, 2 * k1, true, to);
}

// pairs: two channels, four bytes, are packed as an f32 is.
void Pixels::pack_nhwc(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, bool pairs,
                       float* to) const {
  if (k0 == k1) return;  // no channels
  const Gather& g = *g_;
  const int64_t size = size_of(g.dtype);
  const auto taps_across = static_cast<int64_t>(g.across.size());
  // The pixels: where tap (0, 0) without a pad would read.
  struct Line {
    int64_t row, column, pixel;
  };
  Line at[kMaxHeight];
  ResultPixel pixel(g, line0);
  for (int64_t q = 0; q < lines; ++q, pixel.next()) {
    const int64_t row = pixel.i * g.stride_h, column = pixel.j * g.stride_w;
    at[q] = {row, column, (pixel.image * g.h + row) * g.w + column};
  }
  int64_t tap = k0 / g.depth, channel = k0 % g.depth;
  for (int64_t k = k0; k < k1;) {
    const int64_t down = g.down[static_cast<size_t>(tap / taps_across)];
    const int64_t across = g.across[static_cast<size_t>(tap % taps_across)];
    const void* line[kMaxHeight];
    // `taps` taps side by side, with some of their channels. False where, for some line, only a part of them lies in
    // the image.
    const auto point = [&](int64_t taps) {
      for (int64_t q = 0; q < lines; ++q) {
        const int64_t row = at[q].row + down, column = at[q].column + across;
        line[q] = kZeros;
        if (row < 0 || row >= g.h || column + taps <= 0 || column >= g.w) continue;
        if (column < 0 || column + taps > g.w) return false;
        line[q] = x_ + ((at[q].pixel + down * g.w + across) * g.channels + channel) * size;
      }
      return true;
    };
    int64_t taps = g.side_by_side(tap), count = 0;
    const auto limit = [&] {
      count = std::min({taps * g.depth - channel, k1 - k, static_cast<int64_t>(std::size(kZeros))});
      taps = (channel + count - 1) / g.depth + 1;
    };
    limit();
    if (!point(taps)) {
      taps = 1;
      limit();
      point(taps);
    }
    if (pairs)
      pack_lines(line, DType::f32, lines, height, count / 2, to + (k - k0) / 2 * height);
    else
      pack_lines(line, g.dtype, lines, height, count, to + (k - k0) * height);
    k += count;
    channel += count;
    tap += channel / g.depth;
    channel %= g.depth;
  }
}

void Inputs::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  HWY_DYNAMIC_DISPATCH(pack_inputs)(*g_, x_, line0, lines, height, k0, k1, to);
}
void Inputs::pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t k,
                        float* to) const {
  HWY_DYNAMIC_DISPATCH(pack_input_pairs)(*g_, x_, line0, lines, height, k0, k1, k, to);
}

void TransposedFilter::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  const auto run = [&]<class T>(const T* filter) {
    pack_transposed(*p_, *taps_, filter, line0, lines, height, k0, k1, to);
  };
  switch (p_->dtype) {
    case DType::bf16:
      return run(reinterpret_cast<const bf16*>(filter_));
    case DType::f16:
      return run(reinterpret_cast<const f16*>(filter_));
    default:
      return run(reinterpret_cast<const float*>(filter_));
  }
}
void TransposedFilter::pack_pairs(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, int64_t,
                                  float* to) const {
  HWY_DYNAMIC_DISPATCH(pack_filter_pairs)(*p_, *taps_, filter_, line0, lines, height, k0, k1, to);
}

}  // namespace duet::engine
#endif
