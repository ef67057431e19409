// SPDX-License-Identifier: Apache-2.0
// quantise and dequantise with vectors of f32 and i32. Threads share the elements in chunks (chunks.h); channels-inl.h
// brings each vector its scales and zero points. Results that would not stay in cache are written past it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/quantise_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/denormals.h"
#include "cpu_ref/elementwise/channels-inl.h"
#include "ops/elementwise/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void quantise_chunk(const Quantise& p, Args t, const ChannelCuts& cuts, const ChannelCuts::Tables& tables,
                    int64_t first, int64_t last, bool stream) {
  const ScopedKeepDenormals keep;  // of x and scale: their quotient need not be small
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[Quantise::x].as<const T>();
    const auto step = [&](int64_t i, const auto& channels, int64_t j, auto... left) HWY_ATTR {
      const auto z = clamp_level(channels.zero(j, left...), p.lo, p.hi);
      const auto level = unclamped_level(load_as_f32(F32(), x + i, left...), channels.scale(j, left...), z);
      return hn::DemoteTo(I8(), clamp_level(level, p.lo, p.hi));
    };
    map_channels(cuts, tables.scale, tables.zero, first, last, stream, t[Quantise::q].as<int8_t>(), step);
  });
}

void dequantise_chunk(const Dequantise& p, Args t, const ChannelCuts& cuts, const ChannelCuts::Tables& tables,
                      int64_t first, int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const int8_t* q = t[Dequantise::q].as<const int8_t>();
    const auto step = [&](int64_t i, const auto& channels, int64_t j, auto... left) HWY_ATTR {
      hn::Vec<I8> bytes;
      if constexpr (sizeof...(left) == 0)
        bytes = hn::LoadU(I8(), q + i);
      else
        bytes = load(I8(), q + i, left..., int8_t{0});
      const auto z = clamp_level(channels.zero(j, left...), -128, 127);
      const auto steps = hn::ConvertTo(F32(), hn::Sub(hn::PromoteTo(I32(), bytes), z));
      return hn::Mul(steps, channels.scale(j, left...));
    };
    map_channels(cuts, tables.scale, tables.zero, first, last, stream, t[Dequantise::x].as<T>(), step);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(quantise_chunk);
HWY_EXPORT(dequantise_chunk);

Plan quantise_tuned(const Quantise& p, CpuContext& cpu) {
  return channel_plan(p, cpu, size_of(p.dtype) + 1, [](auto&&... a) { HWY_DYNAMIC_DISPATCH(quantise_chunk)(a...); });
}
DUET_REGISTER(quantise_tuned);  // cpu.tuned

Plan dequantise_tuned(const Dequantise& p, CpuContext& cpu) {
  return channel_plan(p, cpu, size_of(p.dtype) + 1, [](auto&&... a) { HWY_DYNAMIC_DISPATCH(dequantise_chunk)(a...); });
}
DUET_REGISTER(dequantise_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
