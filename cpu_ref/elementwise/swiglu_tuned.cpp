// SPDX-License-Identifier: Apache-2.0
// swiglu and its backward with vectors of f32; the exponential is in exp-inl.h. Threads share the elements in chunks
// (chunks.h). The result of the forward pass is written past the caches where it would not stay there (streaming.h);
// backward, each vector of gate, up and dy is read once and gives both gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/swiglu_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/activation-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/swiglu.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void swiglu_chunk(const SwiGlu& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T *gate = t[SwiGlu::gate].as<const T>() + first, *up = t[SwiGlu::up].as<const T>() + first;
    T* y = t[SwiGlu::y].as<T>() + first;
    const auto formula = [d](auto g, auto u) HWY_ATTR { return hn::Mul(hn::Mul(g, sigmoid(d, g)), u); };
    map(d, stream, last - first, formula, y, gate, up);
  });
}

void swiglu_backward_chunk(const SwiGluBackward& p, Args t, int64_t first, int64_t last) {
  using P = SwiGluBackward;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1.0f);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const T *gate = t[P::gate].as<const T>(), *up = t[P::up].as<const T>(), *dy = t[P::dy].as<const T>();
    T *dgate = t[P::dgate].as<T>(), *dup = t[P::dup].as<T>();
    const auto step = [&](int64_t i, auto... left) HWY_ATTR {
      const auto g = load_as_f32(d, gate + i, left...), u = load_as_f32(d, up + i, left...);
      const auto dv = load_as_f32(d, dy + i, left...);
      const auto s = sigmoid(d, g);
      const auto slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(one, s), one));
      store_f32_as(d, hn::Mul(hn::Mul(dv, u), slope), dgate + i, left...);
      store_f32_as(d, hn::Mul(dv, hn::Mul(g, s)), dup + i, left...);
    };
    int64_t i = first;
    for (; i + lanes <= last; i += lanes) step(i);
    if (i < last) step(i, last - i);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(swiglu_chunk);
HWY_EXPORT(swiglu_backward_chunk);

Plan swiglu_tuned(const SwiGlu& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(swiglu_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(swiglu_tuned);  // cpu.tuned

Plan swiglu_backward_tuned(const SwiGluBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(swiglu_backward_chunk)(p, t, first, last);
    });
  };
}
DUET_REGISTER(swiglu_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
