// SPDX-License-Identifier: Apache-2.0
// y = act(x a + b + residual), with an a and a b for each channel: the last pass of batchnorm_tuned.cpp and the only
// pass of batchnorm_inference_tuned.cpp. Include after foreach_target.
#if defined(DUET_CPU_REF_NORM_BATCHNORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_NORM_BATCHNORM_INL_H_
#undef DUET_CPU_REF_NORM_BATCHNORM_INL_H_
#else
#define DUET_CPU_REF_NORM_BATCHNORM_INL_H_
#endif
#include <cmath>

#include "cpu_ref/clamp-inl.h"
#include "cpu_ref/floats-inl.h"
#include "ops/norm/batchnorm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// n pixels of one channel (nchw). residual may be null. floor: 0 for relu, else -inf, which changes nothing.
template <bool kStream, class T>
HWY_INLINE void scale_plane(const T* x, const T* residual, T* y, int64_t n, float a_value, float b_value, float floor) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, a_value), b = hn::Set(d, b_value), floor_vector = hn::Set(d, floor);
  const auto plain = [=](auto v) HWY_ATTR { return max_or_nan(floor_vector, hn::MulAdd(v, a, b)); };
  const auto sum = [=](auto v, auto r) HWY_ATTR { return max_or_nan(floor_vector, hn::Add(hn::MulAdd(v, a, b), r)); };
  residual ? map<kStream>(d, n, sum, y, x, residual) : map<kStream>(d, n, plain, y, x);
}

// The c channels of one pixel (nhwc). a, b: (c).
template <bool kStream, class T>
HWY_INLINE void scale_pixel(const T* x, const T* residual, T* y, int64_t c, const float* a, const float* b,
                            float floor) {
  const hn::ScalableTag<float> d;
  const auto floor_vector = hn::Set(d, floor);
  const auto plain = [floor_vector](auto v, auto va, auto vb)
                         HWY_ATTR { return max_or_nan(floor_vector, hn::MulAdd(v, va, vb)); };
  const auto sum = [floor_vector](auto v, auto r, auto va, auto vb)
                       HWY_ATTR { return max_or_nan(floor_vector, hn::Add(hn::MulAdd(v, va, vb), r)); };
  residual ? map<kStream>(d, c, sum, y, x, residual, a, b) : map<kStream>(d, c, plain, y, x, a, b);
}

inline float floor_of(const Channels& p) { return p.relu() ? 0 : -INFINITY; }

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
