// SPDX-License-Identifier: Apache-2.0
// Sums of a function of all elements of some tensors. Include after foreach_target.
#if defined(DUET_CPU_REF_MEAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_MEAN_INL_H_
#undef DUET_CPU_REF_MEAN_INL_H_
#else
#define DUET_CPU_REF_MEAN_INL_H_
#endif
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/mean.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sum of term(x[i]...) over n <= kMeanBlock elements.
template <class D, class F, class... X>
HWY_INLINE float sum_terms(D d, int64_t n, const F& term, const X*... x) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, term(load_as_f32(d, x + i)...));
    s1 = hn::Add(s1, term(load_as_f32(d, x + i + lanes)...));
    s2 = hn::Add(s2, term(load_as_f32(d, x + i + 2 * lanes)...));
    s3 = hn::Add(s3, term(load_as_f32(d, x + i + 3 * lanes)...));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, term(load_as_f32(d, x + i)...));
  if (i < n) {
    const auto real = hn::FirstN(d, static_cast<size_t>(n - i));  // a term of zeros need not be 0
    s1 = hn::Add(s1, hn::IfThenElseZero(real, term(load_as_f32(d, x + i, n - i)...)));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// partial[b] = the sum of block b, for the blocks [first, last) of n elements.
template <class D, class F, class... X>
HWY_INLINE void sum_blocks(D d, int64_t n, int64_t first, int64_t last, double* partial, const F& term, const X*... x) {
  for (int64_t b = first; b < last; ++b) {
    const int64_t at = b * kMeanBlock;
    partial[b] = sum_terms(d, std::min(kMeanBlock, n - at), term, x + at...);
  }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
