// SPDX-License-Identifier: Apache-2.0
// One row of layernorm and of rmsnorm with vectors of f32, and the residual sum before either: what
// layernorm_tuned.cpp, rmsnorm_tuned.cpp and the ops that add a residual (add_layernorm_tuned.cpp,
// add_rmsnorm_tuned.cpp) share. The passes after the first find the row in cache. Include after foreach_target.
#if defined(DUET_CPU_REF_NORM_NORM_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_NORM_NORM_ROWS_INL_H_
#undef DUET_CPU_REF_NORM_NORM_ROWS_INL_H_
#else
#define DUET_CPU_REF_NORM_NORM_ROWS_INL_H_
#endif
#include <cmath>

#include "cpu_ref/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct RowMoments {
  float mean, rstd;
};

// y = layernorm of x, which has `cols` elements. `stream`: y is written past the caches, and hwy::FlushStream() must
// follow.
template <class D, class T>
HWY_INLINE RowMoments layernorm_row(D d, int64_t cols, double eps, bool stream, const T* x, const T* gamma,
                                    const T* beta, T* y) {
  const auto n = static_cast<double>(std::max<int64_t>(1, cols));
  // Mean.
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto mean = static_cast<float>(sum_in_runs(d, cols, same, x) / n);
  const auto m = hn::Set(d, mean);
  // Standard deviation.
  const auto square = [m](auto v) HWY_ATTR {
    const auto deviation = hn::Sub(v, m);
    return hn::Mul(deviation, deviation);
  };
  const auto rstd = static_cast<float>(1 / std::sqrt(sum_in_runs(d, cols, square, x) / n + eps));
  // Normalise, scale, shift.
  const auto scale = hn::Set(d, rstd);
  const auto formula = [m, scale](auto v, auto g, auto b)
                           HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, m), scale), g, b); };
  stream ? map<true>(d, cols, formula, y, x, gamma, beta) : map<false>(d, cols, formula, y, x, gamma, beta);
  return {mean, rstd};
}

// y = rmsnorm of x. Returns rstd.
template <class D, class T>
HWY_INLINE float rmsnorm_row(D d, int64_t cols, double eps, bool stream, const T* x, const T* gamma, T* y) {
  const auto n = static_cast<double>(std::max<int64_t>(1, cols));
  const auto square = [](auto v) HWY_ATTR { return hn::Mul(v, v); };
  const auto rstd = static_cast<float>(1 / std::sqrt(sum_in_runs(d, cols, square, x) / n + eps));
  const auto scale = hn::Set(d, rstd);
  const auto formula = [scale](auto v, auto g) HWY_ATTR { return hn::Mul(hn::Mul(v, scale), g); };
  stream ? map<true>(d, cols, formula, y, x, gamma) : map<false>(d, cols, formula, y, x, gamma);
  return rstd;
}

// s = x + residual. Returns where the row is in cache: s, or where `stream` writes s past the caches, the copy in
// `scratch`, memory of this thread for `cols` elements.
template <class D, class T>
HWY_INLINE const T* add_row(D d, int64_t cols, bool stream, const T* x, const T* residual, T* s, T* scratch) {
  const auto sum = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  map<false>(d, cols, sum, stream ? scratch : s, x, residual);
  if (!stream) return s;
  const auto same = [](auto v) HWY_ATTR { return v; };
  map<true>(d, cols, same, s, static_cast<const T*>(scratch));
  return scratch;
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
