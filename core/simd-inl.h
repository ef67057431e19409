// SPDX-License-Identifier: Apache-2.0
// Loads and stores of partial vectors that touch only the elements that exist. Below AVX-512, the masked memory
// operations of Highway 1.0 touch a whole aligned vector, which may reach into the next row. Include it after
// foreach_target.h, in every compiled target.
#if defined(DUET_CORE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CORE_SIMD_INL_H_
#undef DUET_CORE_SIMD_INL_H_
#else
#define DUET_CORE_SIMD_INL_H_
#endif
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The first min(left, lanes) elements at p; the other lanes hold `pad`.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load(D d, const T* p, int64_t left, T pad) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (HWY_LIKELY(left >= lanes)) return hn::LoadU(d, p);
#if HWY_TARGET <= HWY_AVX3
  const auto mask = hn::FirstN(d, static_cast<size_t>(left));
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, pad));
#else
  HWY_ALIGN T tail[hn::MaxLanes(d)];
  hn::Store(hn::Set(d, pad), d, tail);
  std::memcpy(tail, p, static_cast<size_t>(left) * sizeof(T));
  return hn::Load(d, tail);
#endif
}

// Writes the first min(left, lanes) elements of v to p, and no other byte.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store(D d, hn::Vec<D> v, T* p, int64_t left) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (HWY_LIKELY(left >= lanes)) return hn::StoreU(v, d, p);
#if HWY_TARGET <= HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(left)), d, p);
#else
  HWY_ALIGN T tail[hn::MaxLanes(d)];
  hn::Store(v, d, tail);
  std::memcpy(p, tail, static_cast<size_t>(left) * sizeof(T));
#endif
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
