// SPDX-License-Identifier: Apache-2.0
// The lower bound of an activation, under which a NaN stays a NaN. Include after foreach_target.
#if defined(DUET_CPU_REF_CLAMP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_CLAMP_INL_H_
#undef DUET_CPU_REF_CLAMP_INL_H_
#else
#define DUET_CPU_REF_CLAMP_INL_H_
#endif
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// max(v, floor), and NaN where v is one; floor is none.
template <class V>
HWY_INLINE V at_least(V v, V floor) {
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(v, floor), floor, v);  // its Max is the first operand where the second is a NaN
#else
  return hn::Max(floor, v);  // on x86 the second operand where one is a NaN; elsewhere a NaN
#endif
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
