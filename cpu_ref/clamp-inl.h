// SPDX-License-Identifier: Apache-2.0
// The larger and the smaller of two values, where a NaN must stay one. Include after foreach_target.
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

// Whether Max and Min give the second operand where one is a NaN, as the instructions of x86 do. Those of other CPUs,
// and Highway's portable vectors, may give the number.
inline constexpr bool kSecondOfNan = HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;

// The larger and the smaller of a and b, and NaN where b is NaN; a is none.
template <class V>
HWY_INLINE V max_or_nan(V a, V b) {
  if constexpr (kSecondOfNan) return hn::Max(a, b);
  return hn::IfThenElse(hn::Gt(a, b), a, b);
}
template <class V>
HWY_INLINE V min_or_nan(V a, V b) {
  if constexpr (kSecondOfNan) return hn::Min(a, b);
  return hn::IfThenElse(hn::Lt(a, b), a, b);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
