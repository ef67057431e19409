// SPDX-License-Identifier: Apache-2.0
// The sums of blocks that norm2 and the losses add up; mean.h says how a tensor is cut. Include after foreach_target.
#if defined(DUET_CPU_REF_MEAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_MEAN_INL_H_
#undef DUET_CPU_REF_MEAN_INL_H_
#else
#define DUET_CPU_REF_MEAN_INL_H_
#endif
#include "cpu_ref/mean.h"
#include "cpu_ref/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// partial[b] = the sum of term(x[i], ...) over block b, for the blocks [first, last) of n elements.
template <class D, class F, class... X>
HWY_INLINE void sum_blocks(D d, int64_t n, int64_t first, int64_t last, double* partial, const F& term, const X*... x) {
  for (int64_t b = first; b < last; ++b) {
    const int64_t at = b * kMeanBlock;
    partial[b] = sum(d, std::min(kMeanBlock, n - at), term, x + at...);
  }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
