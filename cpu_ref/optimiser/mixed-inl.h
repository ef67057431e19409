// SPDX-License-Identifier: Apache-2.0
// Where the parameters of an optimiser lie: in one tensor, or with mixed precision in a master copy of f32 beside the
// parameters of T. Used by sgd, rmsprop and adam. Include after foreach_target.
#if defined(DUET_CPU_REF_OPTIMISER_MIXED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_OPTIMISER_MIXED_INL_H_
#undef DUET_CPU_REF_OPTIMISER_MIXED_INL_H_
#else
#define DUET_CPU_REF_OPTIMISER_MIXED_INL_H_
#endif
#include "cpu_ref/floats-inl.h"
#include "core/plan.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Calls f.operator()<S>(from, to), both from the element `first` on. from: the parameters to update, in S. to: with
// mixed precision the parameters of T, which receive the same values rounded; otherwise null.
template <class T, class P, class F>
HWY_INLINE void for_state(const P& p, Args t, int64_t first, const F& f) {
  T* parameters = t[P::p].template as<T>() + first;
  if (p.mixed)
    f.template operator()<float>(t[P::master].template as<float>() + first, parameters);
  else
    f.template operator()<T>(parameters, static_cast<T*>(nullptr));
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
