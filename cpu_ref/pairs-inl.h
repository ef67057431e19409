// SPDX-License-Identifier: Apache-2.0
// Vectors of pairs of neighbouring elements, as two vectors: one of the first elements and one of the second. Used by
// pool/*-inl.h, elementwise/affine_tuned.cpp and gemm/gemv_tuned.cpp; the packing of conv/ and gemm/ joins pairs.
// Include after foreach_target.
#if defined(DUET_CPU_REF_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_PAIRS_INL_H_
#undef DUET_CPU_REF_PAIRS_INL_H_
#else
#define DUET_CPU_REF_PAIRS_INL_H_
#endif
#include "cpu_ref/floats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether pairs of T are taken apart in vectors of words. A target without vectors has none.
template <class T>
inline constexpr bool kPairsAreWords = is_half<T>&& HWY_TARGET != HWY_SCALAR;

// Words of the bits of two halves each, the first in the lower part.
template <class D, class V = hn::Vec<hn::Rebind<uint16_t, D>>>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> join_pairs(D, V first, V second) {
  const hn::RebindToUnsigned<D> words;
  return hn::Or(hn::PromoteTo(words, first), hn::ShiftLeft<16>(hn::PromoteTo(words, second)));
}

// Loads x[0 .. left), at most 2 vectors, as a vector of the even elements and one of the odd elements.
template <class D, class T>
HWY_INLINE void load_pairs(D d, const T* x, int64_t left, hn::Vec<D>& even, hn::Vec<D>& odd) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (left >= 2 * lanes) {
    if constexpr (kPairsAreWords<T>) {
      const hn::RebindToUnsigned<D> words;
      const auto pairs = hn::BitCast(words, hn::LoadU(hn::Repartition<uint16_t, D>(), bits_of(x)));
      if constexpr (std::is_same_v<T, bf16>) {  // the upper half of an f32
        even = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
        odd = hn::BitCast(d, hn::And(pairs, hn::Set(words, 0xffff0000)));
      } else {
        const hn::Rebind<uint16_t, D> d16;
        even = widen<T>(d, hn::TruncateTo(d16, pairs));
        odd = widen<T>(d, hn::TruncateTo(d16, hn::ShiftRight<16>(pairs)));
      }
      return;
    } else if constexpr (!is_half<T>) {
      return hn::LoadInterleaved2(d, x, even, odd);
    }
  }
  HWY_ALIGN float pairs[2 * hn::MaxLanes(d)];
  hn::Store(load_as_f32(d, x, left), d, pairs);
  hn::Store(left > lanes ? load_as_f32(d, x + lanes, left - lanes) : hn::Zero(d), d, pairs + lanes);
  hn::LoadInterleaved2(d, pairs, even, odd);
}

// The inverse: stores to x[0 .. left), at most 2 vectors.
template <class D, class T>
HWY_INLINE void store_pairs(D d, hn::Vec<D> even, hn::Vec<D> odd, T* x, int64_t left) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (left >= 2 * lanes) {
    if constexpr (kPairsAreWords<T>) {
      const hn::Repartition<uint16_t, D> d16;
      return hn::StoreU(hn::BitCast(d16, join_pairs(d, narrow<T>(d, even), narrow<T>(d, odd))), d16, bits_of(x));
    } else if constexpr (!is_half<T>) {
      return hn::StoreInterleaved2(even, odd, d, x);
    }
  }
  HWY_ALIGN float pairs[2 * hn::MaxLanes(d)];
  hn::StoreInterleaved2(even, odd, d, pairs);
  store_f32_as(d, hn::Load(d, pairs), x, left);
  if (left > lanes) store_f32_as(d, hn::Load(d, pairs + lanes), x + lanes, left - lanes);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
