// SPDX-License-Identifier: Apache-2.0
// exp and exp2 of vectors of f32, within 2 ulp (4 u) of the value at the rounded argument, as the tolerances in ops/
// assume. Softmax is limited by this function as much as by memory, and more accurate libraries spend twice the
// instructions on it. Used by softmax, cross-entropy, attention, the recurrent cells and activation-inl.h. Include
// after foreach_target.
#if defined(DUET_CPU_REF_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_EXP_INL_H_
#undef DUET_CPU_REF_EXP_INL_H_
#else
#define DUET_CPU_REF_EXP_INL_H_
#endif
#include <hwy/highway.h>

#include "cpu_ref/clamp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kLog2E = 1.44269502f;  // log2 e, rounded: 2^(x kLog2E) is off by |x| u / 4

// x kLog2E - top, without the rounding of the product, which differs from x to x and would leave each exponential off
// by |x| u. Without fused multiply-add x is split into 12 bits, whose product with 12 bits of kLog2E is exact, and the
// rest.
template <class V>
HWY_INLINE V log2e_times_minus(V x, V top) {
  const hn::DFromV<V> d;
#if HWY_NATIVE_FMA
  return hn::MulSub(x, hn::Set(d, kLog2E), top);
#else
  constexpr float kHigh = 1.4423828125f;
  const hn::RebindToUnsigned<hn::DFromV<V>> du;
  const V high = hn::BitCast(d, hn::And(hn::BitCast(du, x), hn::Set(du, 0xfffff000u)));
  const V low = hn::IfThenElseZero(hn::IsFinite(x), hn::Sub(x, high));
  const V small = hn::MulAdd(high, hn::Set(d, kLog2E - kHigh), hn::Mul(low, hn::Set(d, kLog2E)));
  return hn::Add(hn::MulSub(high, hn::Set(d, kHigh), top), small);
#endif
}

// p 2^n for whole n. With AVX-512, n may have a fraction, of which only the floor counts.
template <class D>
HWY_INLINE hn::Vec<D> times_power(hn::Vec<D> p, hn::Vec<D> n) {
#if HWY_TARGET <= HWY_AVX3
  // scalef takes the floor of n; it overflows to infinity and underflows to 0 or a subnormal as it should. These are
  // the masked forms with all lanes enabled, because g++ 12 gives false warnings for the plain ones.
  if constexpr (sizeof(p.raw) == 64)
    return hn::Vec<D>{_mm512_maskz_scalef_ps(0xffff, p.raw, n.raw)};
  else if constexpr (sizeof(p.raw) == 32)
    return hn::Vec<D>{_mm256_maskz_scalef_ps(0xff, p.raw, n.raw)};
  else
    return hn::Vec<D>{_mm_maskz_scalef_ps(0xf, p.raw, n.raw)};
#else
  const D d;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(bits)));
#endif
}

// 2^r for r in [0, 1]: a minimax polynomial of degree 5 that is exactly 1 at 0 and off by at most 1.4 u elsewhere. Its
// evaluation adds less than 2 u.
template <class D>
HWY_INLINE hn::Vec<D> exp2_fraction(D d, hn::Vec<D> r) {
  auto p = hn::MulAdd(r, hn::Set(d, 1.86728553e-3f), hn::Set(d, 9.0167012e-3f));
  p = hn::MulAdd(r, p, hn::Set(d, 5.58001482e-2f));
  p = hn::MulAdd(r, p, hn::Set(d, 2.40164386e-1f));
  p = hn::MulAdd(r, p, hn::Set(d, 6.93151317e-1f));
  return hn::MulAdd(r, p, hn::Set(d, 1.0f));
}

// 2^t for t of at most 127, as 2^n 2^r with n = floor(t) and r = t - n. Where t is below -126 the result is 0 or, with
// AVX-512, possibly subnormal. NaN gives NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp2(D d, hn::Vec<D> t) {
#if HWY_TARGET <= HWY_AVX3
  constexpr int kMinusFloor = 9;  // t minus its floor (no fraction bits, round down, no exception); 0 for an infinity
  if constexpr (sizeof(t.raw) == 64)
    return times_power<D>(exp2_fraction(d, hn::Vec<D>{_mm512_maskz_reduce_ps(0xffff, t.raw, kMinusFloor)}), t);
  else if constexpr (sizeof(t.raw) == 32)
    return times_power<D>(exp2_fraction(d, hn::Vec<D>{_mm256_maskz_reduce_ps(0xff, t.raw, kMinusFloor)}), t);
  else
    return times_power<D>(exp2_fraction(d, hn::Vec<D>{_mm_maskz_reduce_ps(0xf, t.raw, kMinusFloor)}), t);
#else
  const auto min_n = hn::Set(d, -126.0f);
  const auto bounded = hn::Max(min_n, t);
  const auto n = hn::Floor(bounded);
  const auto e = hn::IfThenZeroElse(hn::Lt(t, min_n), times_power<D>(exp2_fraction(d, hn::Sub(bounded, n)), n));
  return hn::IfThenElse(hn::IsNaN(t), t, e);
#endif
}

// exp(v) for v of at most 88, within 4 u of the value: 2^n 2^r with n = floor(v log2 e). r must be more accurate than a
// product of v with log2 e rounded to f32. With fused multiply-add, log2 e is the sum of two parts. Without it, where
// each product is rounded before it is added, ln 2 is the sum of two parts instead, and n times the first one is exact.
template <class D>
HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> v) {
  const auto w = max_or_nan(hn::Set(d, -200.0f), v);  // an infinity would make r NaN
  const auto n = hn::Floor(hn::Mul(w, hn::Set(d, kLog2E)));
#if HWY_NATIVE_FMA
  const auto r = hn::MulAdd(w, hn::Set(d, 1.92596303e-8f), hn::MulSub(w, hn::Set(d, kLog2E), n));
#else
  const auto rest = hn::Sub(hn::Sub(w, hn::Mul(n, hn::Set(d, 0.693359375f))), hn::Mul(n, hn::Set(d, -2.12194440e-4f)));
  const auto r = hn::Mul(rest, hn::Set(d, kLog2E));
#endif
  const auto p = exp2_fraction(d, r);
#if HWY_TARGET <= HWY_AVX3
  return times_power<D>(p, n);
#else
  const auto min_n = hn::Set(d, -126.0f);
  const auto e = hn::IfThenZeroElse(hn::Lt(n, min_n), times_power<D>(p, hn::Max(min_n, n)));
  return hn::IfThenElse(hn::IsNaN(v), v, e);
#endif
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
