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

#include "cpu_ref/map_ahead-inl.h"
#include "cpu_ref/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct RowMoments {
  float mean, rstd;
};

// The terms of a row of which its norm takes the sum first.
struct Same {  // layernorm
  HWY_INLINE auto operator()(auto v) const { return v; }
};
struct Square {  // rmsnorm
  HWY_INLINE auto operator()(auto v) const { return hn::Mul(v, v); }
};

// The term of a variance, and the elements of layernorm.
template <class D>
HWY_INLINE auto squared_deviation(D d, float mean) {
  return [m = hn::Set(d, mean)](auto v) HWY_ATTR {
    const auto deviation = hn::Sub(v, m);
    return hn::Mul(deviation, deviation);
  };
}
template <class D>
HWY_INLINE auto normalised(D d, RowMoments moments) {
  return [m = hn::Set(d, moments.mean), scale = hn::Set(d, moments.rstd)](auto v, auto g, auto b)
             HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, m), scale), g, b); };
}

// y = layernorm of x, which has `cols` elements and the sum `sum`. `stream`: y is written past the caches, and
// hwy::FlushStream() must follow; what lies at `next` is asked for.
template <class D, class T, int kNext>
HWY_INLINE RowMoments layernorm_row(D d, int64_t cols, double eps, bool stream, double sum, const T* x, const T* gamma,
                                    const T* beta, T* y, const T* const (&next)[kNext]) {
  const auto n = static_cast<double>(std::max<int64_t>(1, cols));
  // Mean.
  const auto mean = static_cast<float>(sum / n);
  // Standard deviation.
  const auto rstd = static_cast<float>(1 / std::sqrt(sum_in_runs(d, cols, squared_deviation(d, mean), x) / n + eps));
  // Normalise, scale, shift.
  const auto formula = normalised(d, RowMoments{mean, rstd});
  map_ahead(d, stream, cols, formula, y, next, x, gamma, beta);
  return {mean, rstd};
}

// y = rmsnorm of x, whose squares have the sum `squares`, otherwise alike. Returns rstd.
template <class D, class T, int kNext>
HWY_INLINE float rmsnorm_row(D d, int64_t cols, double eps, bool stream, double squares, const T* x, const T* gamma,
                             T* y, const T* const (&next)[kNext]) {
  const auto n = static_cast<double>(std::max<int64_t>(1, cols));
  const auto rstd = static_cast<float>(1 / std::sqrt(squares / n + eps));
  const auto scale = hn::Set(d, rstd);
  const auto formula = [scale](auto v, auto g) HWY_ATTR { return hn::Mul(hn::Mul(v, scale), g); };
  map_ahead(d, stream, cols, formula, y, next, x, gamma);
  return rstd;
}

// Stores v, or of a partial vector its first `left` elements, and returns what is stored then.
template <class D, class T, class... Left>
HWY_INLINE hn::Vec<D> store_rounded(D d, hn::Vec<D> v, T* p, Left... left) {
  store_f32_as(d, v, p, left...);
  if constexpr (is_half<T>)
    return widen<T>(d, narrow<T>(d, v));
  else
    return v;
}

// s = x + residual, and on the way the sum of the terms of s. `row`: where s is in cache: s itself, or where `stream`
// writes it past the caches, the copy in `scratch`, memory of this thread for `cols` elements.
template <class T>
struct AddedRow {
  const T* row;
  double sum;
};
template <class D, class T, class F>
HWY_INLINE AddedRow<T> add_row(D d, int64_t cols, bool stream, const T* x, const T* residual, T* s, T* scratch,
                               const F& term) {
  T* const to = stream ? scratch : s;
  double total = 0;
  for (int64_t first = 0; first < cols; first += kSumRun)
    total += hn::GetLane(hn::SumOfLanes(
        d, reduce(
               d, std::min(kSumRun, cols - first), hn::Zero(d),
               [&](auto acc, int64_t i, auto... left) HWY_ATTR {
                 const int64_t c = first + i;
                 const auto v =
                     store_rounded(d, hn::Add(load_as_f32(d, x + c, left...), load_as_f32(d, residual + c, left...)),
                                   to + c, left...);
                 return hn::Add(acc, existing(d, term(v), hn::Zero(d), left...));
               },
               [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); })));
  if (stream) map<true>(d, cols, Same(), s, static_cast<const T*>(to));
  return {to, total};
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
