// SPDX-License-Identifier: Apache-2.0
// sgd with momentum in one pass over g, p and v, with vectors of f32. Threads share the elements in chunks (chunks.h).
// Stores are plain: p and v have just been read, so their lines are in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/optimiser/sgd_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/optimiser/mixed-inl.h"
#include "cpu_ref/optimiser/mixed.h"
#include "cpu_ref/chunks.h"
#include "ops/optimiser/sgd.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Updates n elements of v and the parameters. from: the parameters to update, in S; to: null, or where they are also
// left in T (see for_state).
template <bool kNesterov, class G, class T, class S>
void sgd_run(const Sgd& a, const G* g, float lr, S* from, S* v, T* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto momentum = hn::Set(d, static_cast<float>(a.momentum));
  const auto weight_decay = hn::Set(d, static_cast<float>(a.weight_decay));
  const auto learning_rate = hn::Set(d, lr);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t left = n - i;
    const auto weight = load_as_f32(d, from + i, left);
    const auto gradient = hn::MulAdd(weight_decay, weight, load_as_f32(d, g + i, left));
    // Velocity, and the direction of the step.
    const auto velocity = hn::MulAdd(momentum, load_as_f32(d, v + i, left), gradient);
    const auto direction = kNesterov ? hn::MulAdd(momentum, velocity, gradient) : velocity;
    const auto updated = hn::NegMulAdd(learning_rate, direction, weight);
    // Write back.
    store_f32_as(d, velocity, v + i, left);
    store_f32_as(d, updated, from + i, left);
    if (to) store_f32_as(d, updated, to + i, left);
  }
}

void sgd_chunk(const Sgd& a, Args t, int64_t first, int64_t last) {
  for_float(a.dtype, [&]<class T>() HWY_ATTR {
    for_state<T>(a, t, first, [&]<class S>(S* from, T* to) HWY_ATTR {
      using G = mixed::Gradient<T, S>;
      (a.nesterov ? sgd_run<true, G, T, S> : sgd_run<false, G, T, S>)(a, t[Sgd::g].as<const G>() + first,
                                                                      *t[Sgd::lr].as<const float>(), from,
                                                                      t[Sgd::v].as<S>() + first, to, last - first);
    });
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(sgd_chunk);

Plan sgd_tuned(const Sgd& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    if (step_is_skipped(p, t)) return;
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) { HWY_DYNAMIC_DISPATCH(sgd_chunk)(p, t, first, last); });
  };
}
DUET_REGISTER(sgd_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
