// SPDX-License-Identifier: Apache-2.0
// relu and its backward need no arithmetic of floats: the bits of a float, read as a signed integer of the same width,
// are negative, zero or positive exactly as the float is. So f32 and both halves are compared as integers and never
// converted. Threads share the elements in chunks (chunks.h); results that would not stay in cache are written past it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/relu_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/relu.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Calls f.operator()<T>() with the signed integer as wide as an element.
template <class F>
HWY_INLINE void for_width(DType dtype, const F& f) {
  size_of(dtype) == 4 ? f.template operator()<int32_t>() : f.template operator()<int16_t>();
}
template <class T>
T* elements(const Tensor& t, int64_t first) {
  return static_cast<T*>(t.data) + first;
}

void relu_chunk(DType dtype, Args t, int64_t first, int64_t last, bool stream) {
  for_width(dtype, [&]<class T>() HWY_ATTR {
    const hn::ScalableTag<T> d;
    const auto relu = [d](auto x) HWY_ATTR { return hn::Max(x, hn::Zero(d)); };
    map(d, stream, last - first, relu, elements<T>(t[Relu::y], first), elements<const T>(t[Relu::x], first));
  });
}

void relu_backward_chunk(DType dtype, Args t, int64_t first, int64_t last, bool stream) {
  for_width(dtype, [&]<class T>() HWY_ATTR {
    const hn::ScalableTag<T> d;
    const auto pass = [d](auto x, auto dy) HWY_ATTR { return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), dy); };
    map(d, stream, last - first, pass, elements<T>(t[ReluBackward::dx], first),
        elements<const T>(t[ReluBackward::x], first), elements<const T>(t[ReluBackward::dy], first));
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(relu_chunk);
HWY_EXPORT(relu_backward_chunk);

Plan relu_tuned(const Relu& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(relu_chunk)(p.dtype, t, first, last, stream);
    });
  };
}
DUET_REGISTER(relu_tuned);  // cpu.tuned

Plan relu_backward_tuned(const ReluBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(relu_backward_chunk)(p.dtype, t, first, last, stream);
    });
  };
}
DUET_REGISTER(relu_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
