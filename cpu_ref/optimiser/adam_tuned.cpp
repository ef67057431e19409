// SPDX-License-Identifier: Apache-2.0
// adam and adamw in one pass over g, p, m and v, with vectors of f32. Threads share the elements in chunks (chunks.h).
// Stores are plain: every array but g has just been read, so its lines are in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/optimiser/adam_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cmath>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/optimiser/adam_step.h"
#include "cpu_ref/optimiser/mixed-inl.h"
#include "cpu_ref/optimiser/mixed.h"
#include "cpu_ref/chunks.h"
#include "ops/optimiser/adam.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Updates n elements of m, v and the parameters. from: the parameters to update, in S; to: null, or where they are also
// left in T (see for_state). AdamStep has the formulas.
template <class G, class T, class S>
void adam_run(const AdamStep& a, const G* g, S* from, S* m, S* v, T* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto beta1 = hn::Set(d, a.beta1), one_minus_beta1 = hn::Set(d, a.one_minus_beta1);
  const auto beta2 = hn::Set(d, a.beta2), one_minus_beta2 = hn::Set(d, a.one_minus_beta2);
  const auto coupled_decay = hn::Set(d, a.coupled_decay), decoupled_decay = hn::Set(d, a.decoupled_decay);
  const auto step_size = hn::Set(d, a.step_size), inv_root_correction2 = hn::Set(d, a.inv_root_correction2);
  const auto eps = hn::Set(d, a.eps), clip = hn::Set(d, a.clip);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t left = n - i;
    const auto weight = load_as_f32(d, from + i, left);
    const auto gradient = hn::MulAdd(clip, load_as_f32(d, g + i, left), hn::Mul(coupled_decay, weight));
    // Moments.
    const auto mean = hn::MulAdd(beta1, load_as_f32(d, m + i, left), hn::Mul(one_minus_beta1, gradient));
    const auto new_square = hn::Mul(hn::Mul(one_minus_beta2, gradient), gradient);
    const auto square = hn::MulAdd(beta2, load_as_f32(d, v + i, left), new_square);
    // Step.
    const auto root = hn::MulAdd(hn::Sqrt(square), inv_root_correction2, eps);
    const auto step = hn::Div(hn::Mul(step_size, mean), root);
    const auto updated = hn::Sub(hn::NegMulAdd(decoupled_decay, weight, weight), step);
    // Write back.
    store_f32_as(d, mean, m + i, left);
    store_f32_as(d, square, v + i, left);
    store_f32_as(d, updated, from + i, left);
    if (to) store_f32_as(d, updated, to + i, left);
  }
}

template <class P>
HWY_INLINE void run_chunk(const P& p, const AdamStep& step, Args t, int64_t first, int64_t last) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for_state<T>(p, t, first, [&]<class S>(S* from, T* to) HWY_ATTR {
      adam_run(step, t[P::g].template as<const mixed::Gradient<T, S>>() + first, from, t[P::m].template as<S>() + first,
               t[P::v].template as<S>() + first, to, last - first);
    });
  });
}
void adam_chunk(const Adam& p, const AdamStep& step, Args t, int64_t first, int64_t last) {
  run_chunk(p, step, t, first, last);
}
void adamw_chunk(const AdamW& p, const AdamStep& step, Args t, int64_t first, int64_t last) {
  run_chunk(p, step, t, first, last);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(adam_chunk);
HWY_EXPORT(adamw_chunk);

// Counts the step and returns its constants.
template <bool kDecoupled>
AdamStep begin_step(const AdamOf<kDecoupled>& p, Args t) {
  using P = AdamOf<kDecoupled>;
  const int32_t done = ++*t[P::step].template as<int32_t>();
  const double norm = p.clips() ? *t[p.norm()].template as<const float>() : 0;
  return adam_step(p, kDecoupled, *t[P::lr].template as<const float>(), done, norm);
}

Plan adam_tuned(const Adam& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    if (step_is_skipped(p, t)) return;
    parallel_chunks(cpu, p.n, [&, step = begin_step(p, t)](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(adam_chunk)(p, step, t, first, last);
    });
  };
}
DUET_REGISTER(adam_tuned);  // cpu.tuned

Plan adamw_tuned(const AdamW& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    if (step_is_skipped(p, t)) return;
    parallel_chunks(cpu, p.n, [&, step = begin_step(p, t)](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(adamw_chunk)(p, step, t, first, last);
    });
  };
}
DUET_REGISTER(adamw_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
