// SPDX-License-Identifier: Apache-2.0
// Smooth activations of vectors of f32 (sigmoid, tanh, gelu in both forms and their slopes) and erf, within the
// roundings that the tolerances in ops/elementwise/ assume. Used by the elementwise ops, bce_logits, and the gelu of
// linear. Include after foreach_target.
#if defined(DUET_CPU_REF_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_ACTIVATION_INL_H_
#undef DUET_CPU_REF_ACTIVATION_INL_H_
#else
#define DUET_CPU_REF_ACTIVATION_INL_H_
#endif
#include "cpu_ref/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kMaxExpArgument = 88;  // exp is not called with more, so that its result is finite

// exp(-v), finite.
template <class D>
HWY_INLINE hn::Vec<D> exp_of_minus(D d, hn::Vec<D> v) {
  return exp(d, min_or_nan(hn::Set(d, kMaxExpArgument), hn::Neg(v)));
}
template <class D>
HWY_INLINE hn::Vec<D> sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp_of_minus(d, x)));
}

// 1 - 2 / (exp(2 |x|) + 1), with the sign of x. Near 0 this cancels, so below 0.625 an odd polynomial takes its place
// (S. Moshier, Cephes, tanhf: within 2 ulp).
template <class D>
HWY_INLINE hn::Vec<D> tanh(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f), abs = hn::Abs(x);
  const auto e = exp(d, min_or_nan(hn::Set(d, kMaxExpArgument), hn::Add(abs, abs)));
  const auto far = hn::CopySign(hn::Sub(one, hn::Div(two, hn::Add(e, one))), x);
  const auto z = hn::Mul(x, x);
  auto p = hn::MulAdd(z, hn::Set(d, -5.70498872745e-3f), hn::Set(d, 2.06390887954e-2f));
  p = hn::MulAdd(z, p, hn::Set(d, -5.37397155531e-2f));
  p = hn::MulAdd(z, p, hn::Set(d, 1.33314422036e-1f));
  p = hn::MulAdd(z, p, hn::Set(d, -3.33332819422e-1f));
  const auto near = hn::MulAdd(hn::Mul(p, z), x, x);
  return hn::IfThenElse(hn::Lt(abs, hn::Set(d, 0.625f)), near, far);
}

// log(1 + e) for e in [0, 1], as 2 atanh(r) with r = e / (2 + e) <= 1/3, by the series of atanh. The terms left out are
// below 2e-9 of the result.
template <class D>
HWY_INLINE hn::Vec<D> log1p_fraction(D d, hn::Vec<D> e) {
  const auto r = hn::Div(e, hn::Add(e, hn::Set(d, 2.0f))), z = hn::Mul(r, r);
  auto p = hn::MulAdd(z, hn::Set(d, 2.0f / 15), hn::Set(d, 2.0f / 13));
  p = hn::MulAdd(z, p, hn::Set(d, 2.0f / 11));
  p = hn::MulAdd(z, p, hn::Set(d, 2.0f / 9));
  p = hn::MulAdd(z, p, hn::Set(d, 2.0f / 7));
  p = hn::MulAdd(z, p, hn::Set(d, 2.0f / 5));
  p = hn::MulAdd(z, p, hn::Set(d, 2.0f / 3));
  return hn::Mul(r, hn::MulAdd(z, p, hn::Set(d, 2.0f)));
}

// A rational function of degree 13 over degree 8 on [-4, 4], beyond which erf rounds to 1 (as in Eigen and XLA): within
// 4 ulp.
template <class D>
HWY_INLINE hn::Vec<D> erf(D d, hn::Vec<D> v) {
  const auto x = min_or_nan(hn::Set(d, 4.0f), max_or_nan(hn::Set(d, -4.0f), v)), z = hn::Mul(x, x);
  auto p = hn::MulAdd(z, hn::Set(d, -2.72614225801306e-10f), hn::Set(d, 2.77068142495902e-08f));
  p = hn::MulAdd(z, p, hn::Set(d, -2.10102402082508e-06f));
  p = hn::MulAdd(z, p, hn::Set(d, -5.69250639462346e-05f));
  p = hn::MulAdd(z, p, hn::Set(d, -7.34990630326855e-04f));
  p = hn::MulAdd(z, p, hn::Set(d, -2.95459980854025e-03f));
  p = hn::MulAdd(z, p, hn::Set(d, -1.60960333262415e-02f));
  auto q = hn::MulAdd(z, hn::Set(d, -1.45660718464996e-05f), hn::Set(d, -2.13374055278905e-04f));
  q = hn::MulAdd(z, q, hn::Set(d, -1.68282697438203e-03f));
  q = hn::MulAdd(z, q, hn::Set(d, -7.37332916720468e-03f));
  q = hn::MulAdd(z, q, hn::Set(d, -1.42647390514189e-02f));
  return hn::Div(hn::Mul(x, p), q);
}

// --- gelu ------------------------------------------------------------------------------------------------------------

inline constexpr float kGeluLinear = 1.5957691216f;    // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.0713548162726f;  // 0.044715 kGeluLinear
inline constexpr float kGeluFlat = 20;                 // the slope is 0 or 1 beyond +- this
inline constexpr float kInvSqrt2 = 0.70710678118f, kInvSqrt2Pi = 0.39894228040f;

// x s(z), s the logistic function, z = 2 sqrt(2 / pi) (x + 0.044715 x^3): equal to x (1 + tanh(z / 2)) / 2.
template <class D>
HWY_INLINE hn::Vec<D> gelu_tanh(D d, hn::Vec<D> x) {
  const auto z = hn::Mul(x, hn::MulAdd(hn::Mul(x, x), hn::Set(d, kGeluCubic), hn::Set(d, kGeluLinear)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_of_minus(d, z)));
}
// s + x s (1 - s) z', with s = s(z) as above. 1 - s is formed as e s, e = exp(-z), so that nothing cancels. Beyond
// kGeluFlat x is taken for it: z' would overflow.
template <class D>
HWY_INLINE hn::Vec<D> gelu_tanh_slope(D d, hn::Vec<D> any) {
  const auto x = min_or_nan(hn::Set(d, kGeluFlat), max_or_nan(hn::Set(d, -kGeluFlat), any));
  const auto one = hn::Set(d, 1.0f), square = hn::Mul(x, x);
  const auto z = hn::Mul(x, hn::MulAdd(square, hn::Set(d, kGeluCubic), hn::Set(d, kGeluLinear)));
  const auto z_slope = hn::MulAdd(square, hn::Set(d, 3 * kGeluCubic), hn::Set(d, kGeluLinear));
  const auto e = exp_of_minus(d, z), s = hn::Div(one, hn::Add(one, e));
  return hn::Mul(s, hn::MulAdd(hn::Mul(x, z_slope), hn::Mul(e, s), one));
}
// x / 2 (1 + erf(x / sqrt(2))).
template <class D>
HWY_INLINE hn::Vec<D> gelu_erf(D d, hn::Vec<D> x) {
  const auto half = hn::Mul(hn::Set(d, 0.5f), x);
  return hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, kInvSqrt2))), half);
}
// The normal distribution function at x, plus x times its density.
template <class D>
HWY_INLINE hn::Vec<D> gelu_erf_slope(D d, hn::Vec<D> x) {
  const auto half = hn::Set(d, 0.5f);
  const auto distribution = hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, kInvSqrt2))), half);
  const auto density = hn::Mul(hn::Set(d, kInvSqrt2Pi), exp(d, hn::Mul(hn::Neg(half), hn::Mul(x, x))));
  return hn::MulAdd(x, density, distribution);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
