// SPDX-License-Identifier: Apache-2.0
// tanh and its backward with vectors of f32; the arithmetic is in activation-inl.h. Threads share the elements in
// chunks (chunks.h); results that would not stay in cache are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/tanh_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/activation-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/tanh.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void tanh_chunk(const Tanh& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[Tanh::x].as<const T>() + first;
    T* y = t[Tanh::y].as<T>() + first;
    map(
        d, stream, last - first, [d](auto v) HWY_ATTR { return tanh(d, v); }, y, x);
  });
}

void tanh_backward_chunk(const TanhBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T *y = t[TanhBackward::y].as<const T>() + first, *dy = t[TanhBackward::dy].as<const T>() + first;
    T* dx = t[TanhBackward::dx].as<T>() + first;
    const auto slope = [d](auto v, auto g) HWY_ATTR { return hn::Mul(g, hn::NegMulAdd(v, v, hn::Set(d, 1.0f))); };
    map(d, stream, last - first, slope, dx, y, dy);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(tanh_chunk);
HWY_EXPORT(tanh_backward_chunk);

Plan tanh_tuned(const Tanh& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(tanh_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(tanh_tuned);  // cpu.tuned

Plan tanh_backward_tuned(const TanhBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(tanh_backward_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(tanh_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
