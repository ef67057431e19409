// SPDX-License-Identifier: Apache-2.0
// Loads and stores between vectors of f32 and memory of f32, bf16 or f16, for all tuned code of this folder:
//
//   load_as_f32     a whole vector, or its first `left` elements
//   store_f32_as    the counterpart, rounded to the element type
//   stream_store    a store that bypasses the caches
//   map             y[i] = f(x[i], ...) over a run of elements, built from these
//
// Memory of another element type (integers, bytes) is loaded into vectors of that type and stored unchanged, so that map
// serves copies too. Start reading at "memory" below; above it are the conversions. Include after foreach_target.
#if defined(DUET_CPU_REF_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_CPU_REF_FLOATS_INL_H_
#undef DUET_CPU_REF_FLOATS_INL_H_
#else
#define DUET_CPU_REF_FLOATS_INL_H_
#endif
#include <hwy/cache_control.h>

#include <type_traits>

#include "core/dtype.h"
#include "core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr bool is_half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

// f.operator()<T>() with the C++ type of f32, bf16 or f16: plans refuse the others (is_simd_dtype in chunks.h).
template <class F>
HWY_INLINE void for_float(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32:
      return f.template operator()<float>();
    case DType::bf16:
      return f.template operator()<bf16>();
    case DType::f16:
      return f.template operator()<f16>();
    default:
      return;
  }
}

// --- between f32 and the bits of a half --------------------------------------------------------------------------

// The bits of f16 to f32. Without F16C Highway 1.0.3 takes infinities and NaN for numbers.
template <class D>
HWY_INLINE hn::Vec<D> widen_f16(D d, hn::Vec<hn::Rebind<uint16_t, D>> half) {
#if HWY_TARGET <= HWY_AVX2
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
#else
  const hn::RebindToSigned<D> di;  // magnitudes have no sign bit, so signed comparisons serve
  const auto bits = hn::BitCast(di, hn::PromoteTo(hn::RebindToUnsigned<D>(), half));
  const auto size = hn::And(bits, hn::Set(di, 0x7fff)), sign = hn::ShiftLeft<16>(hn::Xor(bits, size));
  const auto rebased = hn::Add(hn::ShiftLeft<13>(size), hn::Set(di, (127 - 15) << 23));
  const auto unit = hn::Set(di, 113 << 23);  // the smallest normal: what is below it is normalised by a subtraction
  const auto subnormal =
      hn::BitCast(di, hn::Sub(hn::BitCast(d, hn::Add(rebased, hn::Set(di, 1 << 23))), hn::BitCast(d, unit)));
  auto to = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x400)), subnormal, rebased);
  to = hn::IfThenElse(hn::Gt(size, hn::Set(di, 0x7bff)), hn::Add(rebased, hn::Set(di, (128 - 16) << 23)), to);
  return hn::BitCast(d, hn::Or(to, sign));
#endif
}

template <class T, class D>
HWY_INLINE hn::Vec<D> widen([[maybe_unused]] D d, hn::Vec<hn::Rebind<uint16_t, D>> half) {
  if constexpr (std::is_same_v<T, bf16>)
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), half)));
  else
    return widen_f16(d, half);
}

// f32 to the bits of f16 in integer steps, to nearest even. Without F16C Highway 1.0.3 rounds some values the wrong way.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> narrow_f16([[maybe_unused]] D d, hn::Vec<D> v) {
#if HWY_TARGET <= HWY_AVX2
  return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
#else
  const hn::RebindToSigned<D> di;  // magnitudes have no sign bit, so signed comparisons serve
  const auto bits = hn::BitCast(di, v), size = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto sign = hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<D>(), hn::Xor(bits, size)));
  const auto half = hn::Set(d, 0.5f);  // added to a subnormal result it leaves the rounded bits at the bottom
  const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, size), half)), hn::BitCast(di, half));
  const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(di, 1));
  const auto rebased = hn::Add(size, hn::Add(odd, hn::Set(di, ((15 - 127) * (1 << 23)) + 0xfff)));
  const auto beyond = hn::IfThenElse(hn::Gt(size, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), hn::Set(di, 0x7c00));
  auto to = hn::IfThenElse(hn::Lt(size, hn::Set(di, 113 << 23)), subnormal, hn::ShiftRight<13>(rebased));
  to = hn::IfThenElse(hn::Gt(size, hn::Set(di, (143 << 23) - 1)), beyond, to);
  return hn::TruncateTo(hn::Rebind<uint16_t, D>(), hn::Or(hn::BitCast(hn::RebindToUnsigned<D>(), to), sign));
#endif
}

// To nearest even; a NaN stays one.
template <class T, class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> narrow(D d, hn::Vec<D> v) {
  if constexpr (std::is_same_v<T, f16>) {
    return narrow_f16(d, v);
  } else {
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    return hn::TruncateTo(d16, hn::ShiftRight<16>(hn::IfThenElse(nan, hn::Set(du, 0x7fc00000), rounded)));
  }
}

template <class T>
using Bits = std::conditional_t<is_half<T>, uint16_t, T>;  // what a vector load sees
template <class T>
HWY_INLINE const Bits<T>* bits_of(const T* p) {
  return reinterpret_cast<const Bits<T>*>(p);
}
template <class T>
HWY_INLINE Bits<T>* bits_of(T* p) {
  return reinterpret_cast<Bits<T>*>(p);
}

// --- memory ------------------------------------------------------------------------------------------------------

template <class D, class T>
HWY_INLINE hn::Vec<D> load_as_f32(D d, const T* p) {
  if constexpr (is_half<T>)
    return widen<T>(d, hn::LoadU(hn::Rebind<uint16_t, D>(), bits_of(p)));
  else
    return hn::LoadU(d, p);
}

// The first min(left, lanes) elements; the others are `pad`.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_as_f32(D d, const T* p, int64_t left, hn::TFromD<D> pad = 0) {
  if constexpr (!is_half<T>) {
    return load(d, p, left, pad);
  } else {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (HWY_LIKELY(left >= lanes)) return load_as_f32(d, p);
    const hn::Rebind<uint16_t, D> d16;
    HWY_ALIGN uint16_t tail[hn::MaxLanes(d)];
    hn::Store(narrow<T>(d, hn::Set(d, pad)), d16, tail);
    std::memcpy(tail, static_cast<const void*>(p), static_cast<size_t>(left) * sizeof(T));
    return widen<T>(d, hn::Load(d16, tail));
  }
}

template <class D, class T>
HWY_INLINE void store_f32_as(D d, hn::Vec<D> v, T* p) {
  if constexpr (is_half<T>)
    hn::StoreU(narrow<T>(d, v), hn::Rebind<uint16_t, D>(), bits_of(p));
  else
    hn::StoreU(v, d, p);
}

// The first min(left, lanes) elements and nothing else.
template <class D, class T>
HWY_INLINE void store_f32_as(D d, hn::Vec<D> v, T* p, int64_t left) {
  if constexpr (!is_half<T>) {
    store(d, v, p, left);
  } else {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (HWY_LIKELY(left >= lanes)) return store_f32_as(d, v, p);
    HWY_ALIGN uint16_t tail[hn::MaxLanes(d)];
    hn::Store(narrow<T>(d, v), hn::Rebind<uint16_t, D>(), tail);
    std::memcpy(static_cast<void*>(p), tail, static_cast<size_t>(left) * sizeof(T));
  }
}

// Past the caches when kStream; then p is aligned to a vector of T and hwy::FlushStream() follows the last write.
// Highway streams no vector below 16 bytes: those are stored.
template <bool kStream, class D, class T>
HWY_INLINE void stream_store(D d, hn::Vec<D> v, T* p) {
  if constexpr (!kStream)
    store_f32_as(d, v, p);
  else if constexpr (!is_half<T>)
    hn::Stream(v, d, p);
  else if constexpr (hn::MaxLanes(d) * sizeof(T) >= 16)
    hn::Stream(narrow<T>(d, v), hn::Rebind<uint16_t, D>(), bits_of(p));
  else
    store_f32_as(d, v, p);
}

// Elements before p is aligned to a vector of D's lanes, at most n.
template <class D, class T>
HWY_INLINE int64_t elements_to_alignment(D d, const T* p, int64_t n) {
  const uintptr_t unit = hn::Lanes(d) * sizeof(T);
  const uintptr_t over = reinterpret_cast<uintptr_t>(p) % unit;
  return over == 0 ? 0 : HWY_MIN(n, static_cast<int64_t>((unit - over) / sizeof(T)));
}

// y[i] = f(x[i], ...) over n elements; kStream writes past the caches, and hwy::FlushStream() must follow.
template <bool kStream, class D, class F, class T, class... X>
HWY_INLINE void map(D d, int64_t n, const F& f, T* y, const X*... x) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (kStream) {
    i = elements_to_alignment(d, y, n);
    if (i > 0) store_f32_as(d, f(load_as_f32(d, x, i)...), y, i);
  }
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = f(load_as_f32(d, x + i)...), v1 = f(load_as_f32(d, x + i + lanes)...);
    const auto v2 = f(load_as_f32(d, x + i + 2 * lanes)...), v3 = f(load_as_f32(d, x + i + 3 * lanes)...);
    stream_store<kStream>(d, v0, y + i);
    stream_store<kStream>(d, v1, y + i + lanes);
    stream_store<kStream>(d, v2, y + i + 2 * lanes);
    stream_store<kStream>(d, v3, y + i + 3 * lanes);
  }
  for (; i + lanes <= n; i += lanes) stream_store<kStream>(d, f(load_as_f32(d, x + i)...), y + i);
  if (i < n) store_f32_as(d, f(load_as_f32(d, x + i, n - i)...), y + i, n - i);
}
template <class D, class F, class T, class... X>
HWY_INLINE void map(D d, bool stream, int64_t n, const F& f, T* y, const X*... x) {
  if (!stream) return map<false>(d, n, f, y, x...);
  map<true>(d, n, f, y, x...);
  hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
