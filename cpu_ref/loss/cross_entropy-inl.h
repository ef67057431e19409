// SPDX-License-Identifier: Apache-2.0
// One row of cross_entropy and of its gradient with vectors of f32, for cross_entropy_tuned.cpp and
// cross_entropy_fused_tuned.cpp. The pieces shared with softmax are in softmax-inl.h. Include after foreach_target.
#if defined(DUET_CPU_REF_LOSS_CROSS_ENTROPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_LOSS_CROSS_ENTROPY_INL_H_
#undef DUET_CPU_REF_LOSS_CROSS_ENTROPY_INL_H_
#else
#define DUET_CPU_REF_LOSS_CROSS_ENTROPY_INL_H_
#endif
#include <numbers>

#include "cpu_ref/map_ahead-inl.h"
#include "cpu_ref/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

struct RowLoss {
  float lse;
  double loss;  // lse - sum_c q[c] x[c], where q is the smoothed label
};

// Of x[0 .. cols), in parts that fit L1: whenever a part has a larger maximum, the sum so far is rescaled to it.
template <class T>
HWY_INLINE RowLoss cross_entropy_row(const T* x, int64_t cols, int64_t label, double smooth) {
  const hn::ScalableTag<float> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  float top = -INFINITY;       // powers is the sum of 2^(x log2 e - top)
  double powers = 0, all = 0;  // all: the sum of x, for smoothing
  for (int64_t c = 0; c < cols; c += kRowPart) {
    const int64_t n = std::min(kRowPart, cols - c);
    // Maximum so far; rescale to it.
    const float larger = std::max(top, top_of(max_of(x + c, n)));
    if (larger > top) {
      powers *= std::exp2(double{top} - larger);
      top = larger;
    }
    // Sum of exponentials, and of x.
    powers += power_sum<true>(x + c, n, top);
    if (smooth != 0) all += sum(d, n, same, x + c);
  }
  const double lse = top * std::numbers::ln2 + std::log(powers);
  const bool labelled = label >= 0 && label < cols;
  return {static_cast<float>(lse),
          lse - (labelled ? (1 - smooth) * element(x + label) : 0) - smooth * all / static_cast<double>(cols)};
}

// One row: dx = (exp(x - lse) - q) scale, where q is `hot` for the label and `spread` for every other column. Where x
// is in cache, what lies at `next` is asked for; elsewhere it is null.
template <bool kStream, class T>
void cross_entropy_backward_row(const T* x, int64_t cols, float lse, int64_t label, float spread, float hot,
                                float scale, T* dx, const T* next) {
  const hn::ScalableTag<float> d;
  const auto l = hn::Set(d, lse), q = hn::Set(d, spread), s = hn::Set(d, scale);
  const auto formula = [d, l, q, s](auto v) HWY_ATTR { return hn::Mul(hn::Sub(exp(d, hn::Sub(v, l)), q), s); };
  // The labelled element is written last, from a copy of its x, because dx may be x.
  const bool labelled = label >= 0 && label < cols;
  const float marked = labelled ? element(x + label) : 0;
  if (next)
    map_ahead<kStream>(d, cols, formula, dx, {next}, x);
  else
    map<kStream>(d, cols, formula, dx, x);
  if (!labelled) return;
  const hn::CappedTag<float, 1> one;
  const auto p = exp(one, hn::Set(one, marked - lse));
  store_f32_as(one, hn::Mul(hn::Sub(p, hn::Set(one, hot)), hn::Set(one, scale)), dx + label);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
