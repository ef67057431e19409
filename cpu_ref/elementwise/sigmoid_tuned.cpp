// SPDX-License-Identifier: Apache-2.0
// sigmoid and its backward with vectors of f32; the exponential is in exp-inl.h. Threads share the elements in chunks
// (chunks.h); results that would not stay in cache are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/sigmoid_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/activation-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/sigmoid.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void sigmoid_chunk(const Sigmoid& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T* x = t[Sigmoid::x].as<const T>() + first;
    T* y = t[Sigmoid::y].as<T>() + first;
    map(
        d, stream, last - first, [d](auto v) HWY_ATTR { return sigmoid(d, v); }, y, x);
  });
}

void sigmoid_backward_chunk(const SigmoidBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T *y = t[SigmoidBackward::y].as<const T>() + first, *dy = t[SigmoidBackward::dy].as<const T>() + first;
    T* dx = t[SigmoidBackward::dx].as<T>() + first;
    const auto slope = [d](auto v, auto g) HWY_ATTR { return hn::Mul(hn::Mul(g, v), hn::Sub(hn::Set(d, 1.0f), v)); };
    map(d, stream, last - first, slope, dx, y, dy);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(sigmoid_chunk);
HWY_EXPORT(sigmoid_backward_chunk);

Plan sigmoid_tuned(const Sigmoid& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(sigmoid_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(sigmoid_tuned);  // cpu.tuned

Plan sigmoid_backward_tuned(const SigmoidBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(sigmoid_backward_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(sigmoid_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
