// The parts of softmax and cross-entropy: maximum, and sum of exponentials, of a run of elements that lies in L1.
// Include after foreach_target.
#if defined(DUET_CPU_REF_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_SOFTMAX_INL_H_
#undef DUET_CPU_REF_SOFTMAX_INL_H_
#else
#define DUET_CPU_REF_SOFTMAX_INL_H_
#endif
#include <hwy/cache_control.h>

#include <cmath>

#include "cpu_ref/exp-inl.h"
#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of a row that are worked on at a time. Read from memory once, by max_of, they are in L1 for exp_sum.
inline constexpr int64_t kRowPart = 2048;

template <class T>
HWY_INLINE float max_of(const T* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto m0 = hn::Set(d, -INFINITY), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, read(d, x + i)), m1 = hn::Max(m1, read(d, x + i + lanes));
    m2 = hn::Max(m2, read(d, x + i + 2 * lanes)), m3 = hn::Max(m3, read(d, x + i + 3 * lanes));
  }
  for (; i < n; i += lanes) m0 = hn::Max(m0, read(d, x + i, n - i, -INFINITY));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

// sum_i exp(x[i] - max); with kKeep, e[i] holds the terms. Meanwhile fetches what follows x: the next part or row.
template <bool kKeep, class T>
HWY_INLINE float exp_sum(const T* x, int64_t n, float max, float* e) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, max);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    for (int64_t k = 0; k < 4 * lanes; k += 64 / static_cast<int64_t>(sizeof(T))) hwy::Prefetch(x + n + i + k);
    const auto e0 = exp(d, hn::Sub(read(d, x + i), m)), e1 = exp(d, hn::Sub(read(d, x + i + lanes), m));
    const auto e2 = exp(d, hn::Sub(read(d, x + i + 2 * lanes), m)), e3 = exp(d, hn::Sub(read(d, x + i + 3 * lanes), m));
    s0 = hn::Add(s0, e0), s1 = hn::Add(s1, e1), s2 = hn::Add(s2, e2), s3 = hn::Add(s3, e3);
    if (kKeep) {
      hn::StoreU(e0, d, e + i), hn::StoreU(e1, d, e + i + lanes);
      hn::StoreU(e2, d, e + i + 2 * lanes), hn::StoreU(e3, d, e + i + 3 * lanes);
    }
  }
  for (; i < n; i += lanes) {
    const auto v = exp(d, hn::Sub(read(d, x + i, n - i, -INFINITY), m));  // exp makes the padding 0
    s0 = hn::Add(s0, v);
    if (kKeep) store(d, v, e + i, n - i);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
