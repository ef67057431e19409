// SPDX-License-Identifier: Apache-2.0
// gelu and its backward, in either form, with vectors of f32; the arithmetic is in activation-inl.h. Threads share the
// elements in chunks (chunks.h); results that would not stay in cache are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/gelu_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/activation-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/gelu.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void gelu_chunk(const Gelu& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[Gelu::x].as<const T>() + first;
    T* y = t[Gelu::y].as<T>() + first;
    if (p.form == GeluForm::tanh)
      map(
          d, stream, last - first, [d](auto v) HWY_ATTR { return gelu_tanh(d, v); }, y, x);
    else
      map(
          d, stream, last - first, [d](auto v) HWY_ATTR { return gelu_erf(d, v); }, y, x);
  });
}

void gelu_backward_chunk(const GeluBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T *x = t[GeluBackward::x].as<const T>() + first, *dy = t[GeluBackward::dy].as<const T>() + first;
    T* dx = t[GeluBackward::dx].as<T>() + first;
    if (p.form == GeluForm::tanh)
      map(
          d, stream, last - first, [d](auto v, auto g) HWY_ATTR { return hn::Mul(g, gelu_tanh_slope(d, v)); }, dx, x,
          dy);
    else
      map(
          d, stream, last - first, [d](auto v, auto g) HWY_ATTR { return hn::Mul(g, gelu_erf_slope(d, v)); }, dx, x,
          dy);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(gelu_chunk);
HWY_EXPORT(gelu_backward_chunk);

Plan gelu_tuned(const Gelu& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(gelu_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(gelu_tuned);  // cpu.tuned

Plan gelu_backward_tuned(const GeluBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(gelu_backward_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(gelu_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
