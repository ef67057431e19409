// SPDX-License-Identifier: Apache-2.0
// The vector code of linear_gelu.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/linear_gelu.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "cpu_ref/activation-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/linear_gelu.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void finish_gelu_any(DType dtype, const float* sum, const void* bias, int64_t out, int64_t first, int64_t last,
                     void* pre, void* y) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(dtype, [&]<class T>() HWY_ATTR {
    const auto* b = static_cast<const T*>(bias);
    for (int64_t i = first * out; i < last * out; i += out)
      for (int64_t o = 0; o < out; o += lanes) {
        const int64_t at = i + o, left = out - o;
        const auto v = hn::Add(load(d, sum + at, left, 0.0f), load_as_f32(d, b + o, left));
        store_f32_as(d, v, static_cast<T*>(pre) + at, left);
        store_f32_as(d, gelu_tanh(d, v), static_cast<T*>(y) + at, left);
      }
  });
}

void gelu_gradient_any(DType dtype, const void* pre, const void* dy, int64_t first, int64_t last, void* g) {
  const hn::ScalableTag<float> d;
  for_float(dtype, [&]<class T>() HWY_ATTR {
    map<false>(
        d, last - first, [d](auto v, auto up) HWY_ATTR { return hn::Mul(up, gelu_tanh_slope(d, v)); },
        static_cast<T*>(g) + first, static_cast<const T*>(pre) + first, static_cast<const T*>(dy) + first);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(finish_gelu_any);
HWY_EXPORT(gelu_gradient_any);
}  // namespace

void finish_gelu(DType dtype, const float* sum, const void* bias, int64_t out, int64_t first, int64_t last, void* pre,
                 void* y) {
  HWY_DYNAMIC_DISPATCH(finish_gelu_any)(dtype, sum, bias, out, first, last, pre, y);
}
void gelu_gradient(DType dtype, const void* pre, const void* dy, int64_t first, int64_t last, void* g) {
  HWY_DYNAMIC_DISPATCH(gelu_gradient_any)(dtype, pre, dy, first, last, g);
}
}  // namespace duet
#endif
