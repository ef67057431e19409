// SPDX-License-Identifier: Apache-2.0
// Threads share the elements in pieces; results beyond the caches are written past them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/gelu_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registry.h"
#include "cpu_ref/activation-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/pieces.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/gelu.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void gelu_piece(const Gelu& p, Args t, int64_t first, int64_t last, bool stream) {
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

void gelu_backward_piece(const GeluBackward& p, Args t, int64_t first, int64_t last, bool stream) {
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
HWY_EXPORT(gelu_piece);
HWY_EXPORT(gelu_backward_piece);

Plan gelu_tuned(const Gelu& p, CpuContext& cpu) {
  if (!has_vectors(p.dtype)) return Unsupported{kNoVectors};
  const bool stream = beyond_cache(2 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    in_pieces(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(gelu_piece)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(gelu_tuned);  // cpu.tuned

Plan gelu_backward_tuned(const GeluBackward& p, CpuContext& cpu) {
  if (!has_vectors(p.dtype)) return Unsupported{kNoVectors};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    in_pieces(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(gelu_backward_piece)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(gelu_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
