// SPDX-License-Identifier: Apache-2.0
// Rows of scores, of which attention_tuned.cpp and decode.cpp keep one block at a time in cache: maximum, powers and
// rescaling. Include after foreach_target.
#if defined(DUET_CPU_REF_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_ATTENTION_SCORES_INL_H_
#undef DUET_CPU_REF_ATTENTION_SCORES_INL_H_
#else
#define DUET_CPU_REF_ATTENTION_SCORES_INL_H_
#endif
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu_ref/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to (rows, padded) = rows of D elements, `line` apart, as f32, with zeros from D on.
template <class T>
void widen_rows(const T* from, int64_t line, int64_t rows, int64_t D, int64_t padded, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < padded; c += lanes)
      hn::StoreU(load_as_f32(d, from + i * line + c, std::max<int64_t>(0, D - c)), d, to + i * padded + c);
}

// row[first .. last) = 0.
HWY_INLINE void clear(float* row, int64_t first, int64_t last) {
  if (last > first) std::memset(row + first, 0, static_cast<size_t>(last - first) * sizeof(float));
}

// One block of the scores of a query: s[0 .. n) become the powers 2^(s factor - top), where top is the maximum so far.
// Returns their sum.
HWY_INLINE float powers(float* s, int64_t n, float factor_value, float top_value) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, factor_value), top = hn::Set(d, top_value);
  auto sum0 = hn::Zero(d), sum1 = sum0;
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    const auto e0 = exp2(d, hn::MulSub(hn::LoadU(d, s + j), factor, top));
    const auto e1 = exp2(d, hn::MulSub(hn::LoadU(d, s + j + lanes), factor, top));
    sum0 = hn::Add(sum0, e0);
    sum1 = hn::Add(sum1, e1);
    hn::StoreU(e0, d, s + j);
    hn::StoreU(e1, d, s + j + lanes);
  }
  for (; j < n; j += lanes) {
    const auto exists = hn::FirstN(d, static_cast<size_t>(std::min(n - j, lanes)));
    const auto e = hn::IfThenElseZero(exists, exp2(d, hn::MulSub(load(d, s + j, n - j, 0.0f), factor, top)));
    sum0 = hn::Add(sum0, e);
    store(d, e, s + j, n - j);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

// The maximum of s[j] factor over n scores; -inf for none.
HWY_INLINE float max_product(const float* s, int64_t n, float factor_value) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor = hn::Set(d, factor_value);
  auto max = hn::Set(d, -INFINITY);
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) max = hn::Max(max, hn::Mul(hn::LoadU(d, s + j), factor));
  if (j < n) {
    const auto exists = hn::FirstN(d, static_cast<size_t>(n - j));
    max = hn::Max(max, hn::IfThenElse(exists, hn::Mul(load(d, s + j, n - j, 0.0f), factor), hn::Set(d, -INFINITY)));
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// row[0 .. n) *= factor, for n of whole vectors.
HWY_INLINE void scale_row(float* row, int64_t n, float factor) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto f = hn::Set(d, factor);
  for (int64_t c = 0; c < n; c += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, row + c), f), d, row + c);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
