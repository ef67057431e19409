// SPDX-License-Identifier: Apache-2.0
// The maximum and the sum of exponentials of a run of elements that lies in L1: what softmax, cross-entropy and
// attention have in common. Include after foreach_target.
#if defined(DUET_CPU_REF_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_SOFTMAX_INL_H_
#undef DUET_CPU_REF_SOFTMAX_INL_H_
#else
#define DUET_CPU_REF_SOFTMAX_INL_H_
#endif
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_ref/exp-inl.h"
#include "cpu_ref/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of a row that are worked on at a time. max_of reads them from memory; then they are in L1 for the other
// passes.
inline constexpr int64_t kRowPart = 2048;

// The maximum of x[0 .. n); of no elements -inf.
template <class T>
HWY_INLINE float max_of(const T* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lowest = hn::Set(d, -INFINITY);
  const auto max = reduce(
      d, n, lowest,
      [&](auto acc, int64_t i, auto... left)
          HWY_ATTR { return hn::Max(acc, existing(d, load_as_f32(d, x + i, left...), lowest, left...)); },
      [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// Exponentials are computed as powers of two: exp(x - max) = 2^(x kLog2E - top), where top is max kLog2E, rounded. All
// terms of a row share the rounding of top, so it cancels where they are divided by their sum, and where top is added
// back to the logarithm of the sum.
// Finite where max is -inf: a part of a row that is masked as a whole has powers of 0, not of -inf - -inf.
HWY_INLINE float top_of(float max) { return std::max(max * kLog2E, std::numeric_limits<float>::lowest()); }

// 2^(x kLog2E - top) of the vector at x; with `left`, of its first elements, and 0 in the lanes beyond.
template <class D, class T>
HWY_INLINE hn::Vec<D> power(D d, const T* x, hn::Vec<D> top) {
  return exp2(d, log2e_times_minus(load_as_f32(d, x), top));
}
template <class D, class T>
HWY_INLINE hn::Vec<D> power(D d, const T* x, hn::Vec<D> top, int64_t left) {
  return exp2(d, log2e_times_minus(load_as_f32(d, x, left, -INFINITY), top));
}

// Elements between those of a part and those that are asked for meanwhile.
inline constexpr int64_t kPartsAhead = 2 * kRowPart;

// sum_i 2^(x[i] kLog2E - top) over n elements. kPrefetch: a later part is asked for.
template <bool kPrefetch = false, class T>
HWY_INLINE float power_sum(const T* x, int64_t n, float top_value) {
  const hn::ScalableTag<float> d;
  const auto top = hn::Set(d, top_value);
  const auto sums = reduce(
      d, n, hn::Zero(d),
      [&](auto acc, int64_t i, auto... left) HWY_ATTR {
        if constexpr (kPrefetch) hwy::Prefetch(x + i + kPartsAhead);
        return hn::Add(acc, power(d, x + i, top, left...));
      },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  return hn::GetLane(hn::SumOfLanes(d, sums));
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
