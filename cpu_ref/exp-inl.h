// exp of f32 vectors, within 2 ulp (4 u) of the value at the rounded argument, as the tolerances of ops/ assume; tighter
// libraries spend twice the instructions. Include after foreach_target.
#if defined(DUET_CPU_REF_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_EXP_INL_H_
#undef DUET_CPU_REF_EXP_INL_H_
#else
#define DUET_CPU_REF_EXP_INL_H_
#endif
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp(v) = 2^n 2^r: n the whole number next to v log2(e), r the rest, |r| <= 1/2, with log2(e) in two parts so that r
// is rounded once. 2^r is a minimax polynomial of degree 5 that is 1 at 0, off by at most 1.6 u; its evaluation adds
// less than 2 u. Below -87.3 the result is 0, above 88.7 (without AVX-512: 88.3) infinite, of NaN NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp(D d, hn::Vec<D> v) {
  const auto log2e = hn::Set(d, 1.44269502f), log2e_rest = hn::Set(d, 1.92596303e-8f);
  const auto polynomial = [d](auto r) HWY_ATTR {
    auto p = hn::MulAdd(r, hn::Set(d, 1.32646541e-3f), hn::Set(d, 9.67156615e-3f));
    p = hn::MulAdd(r, p, hn::Set(d, 5.55073440e-2f));
    p = hn::MulAdd(r, p, hn::Set(d, 2.40222413e-1f));
    p = hn::MulAdd(r, p, hn::Set(d, 6.93146977e-1f));
    return hn::MulAdd(r, p, hn::Set(d, 1.0f));
  };
#if HWY_TARGET <= HWY_AVX3
  // scalef multiplies by 2^n and overflows and flushes as it should; the bounds only keep infinities out of r. The masked
  // form, of all lanes, spares the false warnings that g++ 12 gives for the plain one.
  v = hn::Min(hn::Set(d, 200.0f), hn::Max(hn::Set(d, -200.0f), v));  // in this order NaN passes
  const auto n = hn::Round(hn::Mul(v, log2e));
  const auto r = hn::MulAdd(v, log2e_rest, hn::MulSub(v, log2e, n));
  const auto p = polynomial(r);
  if constexpr (sizeof(p.raw) == 64)
    return hn::Vec<D>{_mm512_maskz_scalef_ps(0xffff, p.raw, n.raw)};
  else if constexpr (sizeof(p.raw) == 32)
    return hn::Vec<D>{_mm256_scalef_ps(p.raw, n.raw)};
  else
    return hn::Vec<D>{_mm_scalef_ps(p.raw, n.raw)};
#else
  const hn::RebindToSigned<D> di;
  const auto least = hn::Set(d, -87.3f);
  const auto w = hn::Min(hn::Set(d, 88.9f), hn::Max(least, v));
  const auto shift = hn::Set(d, 12582912.0f + 127);  // 1.5 2^23: adding it leaves n + 127 in the lowest bits
  const auto shifted = hn::MulAdd(w, log2e, shift);
  const auto n = hn::Sub(shifted, shift);
  const auto r = hn::MulAdd(w, log2e_rest, hn::MulSub(w, log2e, n));
  const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  const auto e = hn::IfThenZeroElse(hn::Lt(v, least), hn::Mul(polynomial(r), power));
  return hn::IfThenElse(hn::IsNaN(v), v, e);
#endif
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
