// SPDX-License-Identifier: Apache-2.0
// fake_quantise and its backward with vectors of f32 and i32. Threads share the elements in chunks (chunks.h);
// channels-inl.h brings each vector its scales and zero points. Results that would not stay in cache are written past
// it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/fake_quantise_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/denormals.h"
#include "cpu_ref/elementwise/channels-inl.h"
#include "ops/elementwise/fake_quantise.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void fake_quantise_chunk(const FakeQuantise& p, Args t, const ChannelCuts& cuts, const ChannelCuts::Tables& tables,
                         int64_t first, int64_t last, bool stream) {
  const ScopedKeepDenormals keep;  // of x and scale: their quotient need not be small
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[FakeQuantise::x].as<const T>();
    const auto step = [&](int64_t i, const auto& channels, int64_t j, auto... left) HWY_ATTR {
      const auto scale = channels.scale(j, left...);
      const auto z = clamp_level(channels.zero(j, left...), p.lo, p.hi);
      const auto level = clamp_level(unclamped_level(load_as_f32(F32(), x + i, left...), scale, z), p.lo, p.hi);
      return hn::Mul(hn::ConvertTo(F32(), hn::Sub(level, z)), scale);
    };
    map_channels(cuts, tables.scale, tables.zero, first, last, stream, t[FakeQuantise::y].as<T>(), step);
  });
}

void fake_quantise_backward_chunk(const FakeQuantiseBackward& p, Args t, const ChannelCuts& cuts,
                                  const ChannelCuts::Tables& tables, int64_t first, int64_t last, bool stream) {
  const ScopedKeepDenormals keep;
  using P = FakeQuantiseBackward;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
    const auto step = [&](int64_t i, const auto& channels, int64_t j, auto... left) HWY_ATTR {
      const auto z = clamp_level(channels.zero(j, left...), p.lo, p.hi);
      const auto level = unclamped_level(load_as_f32(F32(), x + i, left...), channels.scale(j, left...), z);
      const auto passes = hn::RebindMask(F32(), hn::Eq(level, clamp_level(level, p.lo, p.hi)));
      return hn::IfThenElseZero(passes, load_as_f32(F32(), dy + i, left...));
    };
    map_channels(cuts, tables.scale, tables.zero, first, last, stream, t[P::dx].as<T>(), step);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(fake_quantise_chunk);
HWY_EXPORT(fake_quantise_backward_chunk);

Plan fake_quantise_tuned(const FakeQuantise& p, CpuContext& cpu) {
  return channel_plan(p, cpu, 2 * size_of(p.dtype), [](auto&&... a) {
    HWY_DYNAMIC_DISPATCH(fake_quantise_chunk)(a...);
  });
}
DUET_REGISTER(fake_quantise_tuned);  // cpu.tuned

Plan fake_quantise_backward_tuned(const FakeQuantiseBackward& p, CpuContext& cpu) {
  return channel_plan(p, cpu, 3 * size_of(p.dtype), [](auto&&... a) {
    HWY_DYNAMIC_DISPATCH(fake_quantise_backward_chunk)(a...);
  });
}
DUET_REGISTER(fake_quantise_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
