// SPDX-License-Identifier: Apache-2.0
// One pass over g, p and v; threads share the elements in pieces. Stores are plain: p and v are in cache, just read.
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

// from: the parameters that are updated, in S; to: null, or where they are left in T as well.
template <bool kNesterov, class G, class T, class S>
void sgd_run(const Sgd& a, const G* g, float lr, S* from, S* v, T* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto momentum = hn::Set(d, static_cast<float>(a.momentum)),
             decay = hn::Set(d, static_cast<float>(a.weight_decay));
  const auto rate = hn::Set(d, lr);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t left = n - i;
    const auto weight = load_as_f32(d, from + i, left), step = hn::MulAdd(decay, weight, load_as_f32(d, g + i, left));
    const auto velocity = hn::MulAdd(momentum, load_as_f32(d, v + i, left), step);
    const auto direction = kNesterov ? hn::MulAdd(momentum, velocity, step) : velocity;
    const auto updated = hn::NegMulAdd(rate, direction, weight);
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
    if (skips(p, t)) return;
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) { HWY_DYNAMIC_DISPATCH(sgd_chunk)(p, t, first, last); });
  };
}
DUET_REGISTER(sgd_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
