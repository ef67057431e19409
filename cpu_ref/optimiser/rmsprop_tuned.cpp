// SPDX-License-Identifier: Apache-2.0
// rmsprop in one pass over g, p and v, with vectors of f32. Threads share the elements in chunks (chunks.h). Stores are
// plain: p and v have just been read, so their lines are in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/optimiser/rmsprop_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/optimiser/mixed-inl.h"
#include "cpu_ref/optimiser/mixed.h"
#include "cpu_ref/chunks.h"
#include "ops/optimiser/rmsprop.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Updates n elements of v and the parameters. from: the parameters to update, in S; to: null, or where they are also
// left in T (see for_state).
template <class G, class T, class S>
void rmsprop_run(const Rmsprop& a, const G* g, float lr, S* from, S* v, T* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto alpha = hn::Set(d, static_cast<float>(a.alpha));
  const auto one_minus_alpha = hn::Set(d, static_cast<float>(1 - a.alpha));
  const auto eps = hn::Set(d, static_cast<float>(a.eps)), learning_rate = hn::Set(d, lr);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t left = n - i;
    const auto gradient = load_as_f32(d, g + i, left);
    // Mean of squares.
    const auto new_square = hn::Mul(hn::Mul(one_minus_alpha, gradient), gradient);
    const auto square = hn::MulAdd(alpha, load_as_f32(d, v + i, left), new_square);
    // Step.
    const auto step = hn::Div(hn::Mul(learning_rate, gradient), hn::Add(hn::Sqrt(square), eps));
    const auto updated = hn::Sub(load_as_f32(d, from + i, left), step);
    // Write back.
    store_f32_as(d, square, v + i, left);
    store_f32_as(d, updated, from + i, left);
    if (to) store_f32_as(d, updated, to + i, left);
  }
}

void rmsprop_chunk(const Rmsprop& a, Args t, int64_t first, int64_t last) {
  using P = Rmsprop;
  for_float(a.dtype, [&]<class T>() HWY_ATTR {
    for_state<T>(a, t, first, [&]<class S>(S* from, T* to) HWY_ATTR {
      rmsprop_run(a, t[P::g].as<const mixed::Gradient<T, S>>() + first, *t[P::lr].as<const float>(), from,
                  t[P::v].as<S>() + first, to, last - first);
    });
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(rmsprop_chunk);

Plan rmsprop_tuned(const Rmsprop& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    if (step_is_skipped(p, t)) return;
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(rmsprop_chunk)(p, t, first, last);
    });
  };
}
DUET_REGISTER(rmsprop_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
