// nchw: a strip of pixels falls into runs of one output row. Under one tap (r, s) a run is a window of an input row,
// the same in every channel; what lies outside the image is masked to 0. nhwc: a pixel under one tap is a row of
// channels.
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

// Which of the lanes [at, at + kLanes) of a window lie in [low, high).
template <class DT>
struct Window {
  DT dt;
#if HWY_TARGET <= HWY_AVX3
  hn::Mask<DT> mask;
  Window(int64_t low, int64_t high)
      : mask(hn::AndNot(hn::FirstN(dt, static_cast<size_t>(std::clamp<int64_t>(low, 0, kLanes))),
                        hn::FirstN(dt, static_cast<size_t>(std::clamp<int64_t>(high, 0, kLanes))))) {}
  HWY_INLINE hn::Vec<DT> operator()(const hn::TFromD<DT>* p) const { return hn::MaskedLoad(mask, dt, p); }
#else  // a masked load may touch what is masked
  int64_t low, high;
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

// A run under one tap, for all channels of this block of k. Values j of the run come from x[channel * plane + j *
// stride], where 0 <= column + j * stride < width, else they are 0; to: (channel, step).
struct Run {
  int64_t count, room;  // room: floats that may be written at `to`, with those beyond count to be overwritten
  int64_t channels, plane, stride, column, width, step;
  const void* x;
  float* to;
};

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

// The strip of pixels [line0, line0 + lines) of one image; see Operand::pack.
void pack_nchw(const Conv2d& p, const char* x, int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1,
               float* to) {
  const int64_t wo = p.wo(), taps = p.r * p.s, size = size_of(p.dtype);
  if (lines < height)
    for (int64_t k = k0; k < k1; ++k) std::fill_n(to + (k - k0) * height + lines, height - lines, 0.0f);
  for (int64_t done = 0; done < lines;) {
    const int64_t i = (line0 + done) / wo, j = (line0 + done) % wo, count = std::min(wo - j, lines - done);
    const bool last = done + count == lines;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t c0 = k0 <= tap ? 0 : ceil_div(k0 - tap, taps), c1 = k1 <= tap ? 0 : ceil_div(k1 - tap, taps);
      if (c1 <= c0) continue;
      const int64_t row = i * p.stride_h - p.pad_h + tap / p.s * p.dil_h;
      const int64_t column = j * p.stride_w - p.pad_w + tap % p.s * p.dil_w;
      const bool inside = row >= 0 && row < p.h;
      const Run run{.count = count,
                    .room = last ? count : height - done,
                    .channels = c1 - c0,
                    .plane = p.h * p.w,
                    .stride = p.stride_w,
                    .column = column,
                    .width = inside ? p.w : INT64_MIN / 4,
                    .step = taps * height,
                    .x = x + (c0 * p.h * p.w + (inside ? row * p.w + column : 0)) * size,
                    .to = to + (c0 * taps + tap - k0) * height + done};
      for_float(p.dtype, [&]<class T>() { copy_run<T>(run); });
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
alignas(64) constexpr float kZeros[1024] = {};  // a row of channels outside the image
}  // namespace

Pixels::Pixels(const Conv2d& p, const void* x) : p_(&p), x_(static_cast<const char*>(x)), ho_(p.ho()), wo_(p.wo()) {}

void Pixels::pack(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  if (p_->layout == Layout::nhwc) return pack_nhwc(line0, lines, height, k0, k1, to);
  HWY_DYNAMIC_DISPATCH(pack_nchw)(*p_, x_, line0, lines, height, k0, k1, to);
}

void Pixels::pack_nhwc(int64_t line0, int64_t lines, int64_t height, int64_t k0, int64_t k1, float* to) const {
  const Conv2d& p = *p_;
  const int64_t depth = p.group_c(), size = size_of(p.dtype);
  for (int64_t k = k0; k < k1;) {  // the channels under one tap
    const int64_t tap = k / depth, channel = k % depth;
    const int64_t count = std::min({depth - channel, k1 - k, static_cast<int64_t>(std::size(kZeros))});
    const void* line[kMaxHeight];
    for (int64_t q = 0; q < lines; ++q) {
      const int64_t pixel = line0 + q, image = pixel / (ho_ * wo_), i = pixel / wo_ % ho_, j = pixel % wo_;
      const int64_t row = i * p.stride_h - p.pad_h + tap / p.s * p.dil_h;
      const int64_t column = j * p.stride_w - p.pad_w + tap % p.s * p.dil_w;
      const bool inside = row >= 0 && row < p.h && column >= 0 && column < p.w;
      line[q] = inside ? x_ + (((image * p.h + row) * p.w + column) * p.c + channel) * size
                       : reinterpret_cast<const char*>(kZeros);
    }
    pack_lines(line, p.dtype, lines, height, count, to + (k - k0) * height);
    k += count;
  }
}

}  // namespace duet::engine
#endif
