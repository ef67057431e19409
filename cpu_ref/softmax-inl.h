// SPDX-License-Identifier: Apache-2.0
// The parts of softmax and cross-entropy: maximum, and sum of exponentials, of a run of elements that lies in L1.
// Include after foreach_target.
#if defined(DUET_CPU_REF_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_SOFTMAX_INL_H_
#undef DUET_CPU_REF_SOFTMAX_INL_H_
#else
#define DUET_CPU_REF_SOFTMAX_INL_H_
#endif
#include <cmath>

#include "cpu_ref/exp-inl.h"
#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of a row that are worked on at a time. Read from memory once, by max_of, they are in L1 for what follows.
inline constexpr int64_t kRowPart = 2048;

template <class T>
HWY_INLINE float max_of(const T* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto m0 = hn::Set(d, -INFINITY), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, load_as_f32(d, x + i));
    m1 = hn::Max(m1, load_as_f32(d, x + i + lanes));
    m2 = hn::Max(m2, load_as_f32(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, load_as_f32(d, x + i + 3 * lanes));
  }
  for (; i < n; i += lanes) m0 = hn::Max(m0, load_as_f32(d, x + i, n - i, -INFINITY));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

// Softmax works with powers of two: exp(x - max) = 2^(x kLog2E - top), top = max kLog2E rounded. All terms of a row share
// the rounding of top, and so does whoever undoes it.
HWY_INLINE float top_of(float max) { return max * kLog2E; }

template <class D, class T>
HWY_INLINE hn::Vec<D> power(D d, const T* x, hn::Vec<D> top) {
  return exp2(d, hn::MulSub(load_as_f32(d, x), hn::Set(d, kLog2E), top));
}
template <class D, class T>
HWY_INLINE hn::Vec<D> power(D d, const T* x, hn::Vec<D> top, int64_t left) {  // lanes beyond: 0
  return exp2(d, hn::MulSub(load_as_f32(d, x, left, -INFINITY), hn::Set(d, kLog2E), top));
}

// sum_i 2^(x[i] kLog2E - top)
template <class T>
HWY_INLINE float power_sum(const T* x, int64_t n, float top_value) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto top = hn::Set(d, top_value);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, power(d, x + i, top));
    s1 = hn::Add(s1, power(d, x + i + lanes, top));
    s2 = hn::Add(s2, power(d, x + i + 2 * lanes, top));
    s3 = hn::Add(s3, power(d, x + i + 3 * lanes, top));
  }
  for (; i < n; i += lanes) s0 = hn::Add(s0, power(d, x + i, top, n - i));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
