// SPDX-License-Identifier: Apache-2.0
// map_channels(): elementwise work on a tensor (outer, c, inner) whose channels have a scale and a zero point each, for
// the tuned code of quantisation. Include after foreach_target; the plan side is channels.h.
#if defined(DUET_CPU_REF_CHANNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_CHANNELS_INL_H_
#undef DUET_CPU_REF_CHANNELS_INL_H_
#else
#define DUET_CPU_REF_CHANNELS_INL_H_
#endif
#include "cpu_ref/elementwise/channels.h"
#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using I8 = hn::Rebind<int8_t, F32>;

// The scales and zero points of the elements of a run: one of each for all, or one of each for every element.
struct OneChannel {
  float scale_value;
  int32_t zero_value;
  HWY_INLINE hn::Vec<F32> scale(int64_t, auto...) const { return hn::Set(F32(), scale_value); }
  HWY_INLINE hn::Vec<I32> zero(int64_t, auto...) const { return hn::Set(I32(), zero_value); }
};
struct ManyChannels {
  const float* scales;
  const int32_t* zeros;
  HWY_INLINE hn::Vec<F32> scale(int64_t i) const { return hn::LoadU(F32(), scales + i); }
  HWY_INLINE hn::Vec<F32> scale(int64_t i, int64_t left) const { return load(F32(), scales + i, left, 1.0f); }
  HWY_INLINE hn::Vec<I32> zero(int64_t i) const { return hn::LoadU(I32(), zeros + i); }
  HWY_INLINE hn::Vec<I32> zero(int64_t i, int64_t left) const { return load(I32(), zeros + i, left, 0); }
};

// A vector of results, in f32 or as bytes.
template <bool kStream, class V, class Y>
HWY_INLINE void store_results(V v, Y* to) {
  if constexpr (!std::is_same_v<Y, int8_t>)
    stream_store<kStream>(F32(), v, to);
  else if constexpr (kStream && hn::MaxLanes(I8()) >= 16)
    hn::Stream(v, I8(), to);
  else
    hn::StoreU(v, I8(), to);
}
template <class V, class Y>
HWY_INLINE void store_results(V v, Y* to, int64_t left) {
  if constexpr (std::is_same_v<Y, int8_t>)
    store(I8(), v, to, left);
  else
    store_f32_as(F32(), v, to, left);
}

// Elements [first, last) of a result, vector by vector: step(i, channels, j, left...) gives those from element i on;
// their scales are channels.scale(j, left...). `left` is given for a vector that is not whole. kStream: whole vectors
// are aligned, and written past the caches.
template <bool kStream, class Y, class Step>
HWY_INLINE void channel_runs(const ChannelCuts& cuts, const float* scale, const int32_t* zero, int64_t first,
                             int64_t last, Y* to, const Step& step) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
  const auto run = [&](int64_t i, int64_t n, const auto& channels) HWY_ATTR {
    int64_t j = 0;
    for (; j + lanes <= n; j += lanes) store_results<kStream>(step(i + j, channels, j), to + (i - first) + j);
    if (j < n) store_results(step(i + j, channels, j, n - j), to + (i - first) + j, n - j);
  };
  for (int64_t i = first; i < last;) {
    int64_t n;
    if (cuts.long_planes()) {
      const int64_t plane = i / cuts.inner;
      n = std::min(last, (plane + 1) * cuts.inner) - i;
      run(i, n, OneChannel{scale[plane % cuts.c], zero[plane % cuts.c]});
    } else {
      const int64_t at = i % cuts.width;
      n = std::min(last - i, cuts.width - at);
      run(i, n, ManyChannels{scale + at, zero + at});
    }
    i += n;
  }
}

// Elements [first, last) of y, by `step` as in channel_runs. scale, zero: as ChannelCuts::tables gives them. With
// `stream`, results go past the caches: vector by vector where all runs begin at whole vectors, else by blocks that are
// computed in L1.
template <class Y, class Step>
void map_channels(const ChannelCuts& cuts, const float* scale, const int32_t* zero, int64_t first, int64_t last,
                  bool stream, Y* y, const Step& step) {
  if (!stream) return channel_runs<false>(cuts, scale, zero, first, last, y + first, step);
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32()));
  if ((cuts.long_planes() ? cuts.inner : cuts.width) % lanes == 0 &&
      reinterpret_cast<uintptr_t>(y + first) % (static_cast<size_t>(lanes) * sizeof(Y)) == 0) {
    channel_runs<true>(cuts, scale, zero, first, last, y + first, step);
    return hwy::FlushStream();
  }
  constexpr int64_t kBlock = 1024;
  HWY_ALIGN Y block[kBlock];
  const hn::ScalableTag<Bits<Y>> bits;
  const auto same = [](auto v) HWY_ATTR { return v; };
  for (int64_t i = first; i < last; i += kBlock) {
    const int64_t n = std::min(kBlock, last - i);
    channel_runs<false>(cuts, scale, zero, i, i + n, block, step);
    map<true>(bits, n, same, bits_of(y) + i, bits_of(static_cast<const Y*>(block)));
  }
  hwy::FlushStream();
}

// rne(x / scale) + z as ops/elementwise/quantise_formula.h says, before it is clamped. Quotients beyond 2^23 count as
// that: they are clamped in any case, because lo, hi and z lie far below.
HWY_INLINE hn::Vec<I32> unclamped_level(hn::Vec<F32> x, hn::Vec<F32> scale, hn::Vec<I32> z) {
  const F32 d;
  auto quotient = hn::Div(x, scale);
  quotient = hn::IfThenElseZero(hn::Eq(quotient, quotient), quotient);
  quotient = hn::Max(hn::Min(quotient, hn::Set(d, 0x1p23f)), hn::Set(d, -0x1p23f));
  return hn::Add(hn::NearestInt(quotient), z);
}

HWY_INLINE hn::Vec<I32> clamp_level(hn::Vec<I32> level, int64_t lo, int64_t hi) {
  const I32 d;
  return hn::Max(hn::Min(level, hn::Set(d, static_cast<int32_t>(hi))), hn::Set(d, static_cast<int32_t>(lo)));
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
