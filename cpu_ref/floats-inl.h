// SPDX-License-Identifier: Apache-2.0
// Loads and stores between vectors of f32 and memory of f32, bf16 or f16, for all tuned code of this folder:
//
//   load_as_f32     a whole vector, or its first `left` elements
//   store_f32_as    the counterpart, rounded to the element type
//   stream_store    a store that bypasses the caches
//   map             y[i] = f(x[i], ...) over a run of elements, built from these
//
// Memory of another element type (integers, bytes) is loaded into vectors of that type and stored unchanged, so that
// map serves copies too. Start reading at "memory" below; above it are the conversions. Include after foreach_target.
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

// Calls f.operator()<T>() with the C++ type of f32, bf16 or f16. Plans refuse other types first (is_simd_dtype in
// chunks.h).
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

// f32 from the bits of f16. Targets below AVX2 do without F16C, and there Highway 1.0.3 converts infinities and NaN as
// if they were numbers; so this has integer code of its own.
template <class D>
HWY_INLINE hn::Vec<D> widen_f16(D d, hn::Vec<hn::Rebind<uint16_t, D>> half) {
#if HWY_TARGET <= HWY_AVX2
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
#else
  const hn::RebindToSigned<D> di;  // magnitudes have no sign bit, so signed comparisons serve
  const auto bits = hn::BitCast(di, hn::PromoteTo(hn::RebindToUnsigned<D>(), half));
  const auto abs = hn::And(bits, hn::Set(di, 0x7fff)), sign = hn::ShiftLeft<16>(hn::Xor(bits, abs));
  const auto rebased = hn::Add(hn::ShiftLeft<13>(abs), hn::Set(di, (127 - 15) << 23));
  const auto unit = hn::Set(di, 113 << 23);  // the smallest normal f16; subtracting it normalises what is below
  const auto subnormal =
      hn::BitCast(di, hn::Sub(hn::BitCast(d, hn::Add(rebased, hn::Set(di, 1 << 23))), hn::BitCast(d, unit)));
  auto to = hn::IfThenElse(hn::Lt(abs, hn::Set(di, 0x400)), subnormal, rebased);
  to = hn::IfThenElse(hn::Gt(abs, hn::Set(di, 0x7bff)), hn::Add(rebased, hn::Set(di, (128 - 16) << 23)), to);
  return hn::BitCast(d, hn::Or(to, sign));
#endif
}

// f32 from the bits of a half, T.
template <class T, class D>
HWY_INLINE hn::Vec<D> widen([[maybe_unused]] D d, hn::Vec<hn::Rebind<uint16_t, D>> half) {
  if constexpr (std::is_same_v<T, bf16>)
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), half)));
  else
    return widen_f16(d, half);
}

// The bits of f16 from f32, rounded to nearest even. Targets below AVX2 do without F16C, and there Highway 1.0.3 rounds
// some values the wrong way; so this has integer code of its own.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> narrow_f16([[maybe_unused]] D d, hn::Vec<D> v) {
#if HWY_TARGET <= HWY_AVX2
  return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
#else
  const hn::RebindToSigned<D> di;  // magnitudes have no sign bit, so signed comparisons serve
  const auto bits = hn::BitCast(di, v), abs = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto sign = hn::ShiftRight<16>(hn::BitCast(hn::RebindToUnsigned<D>(), hn::Xor(bits, abs)));
  const auto half = hn::Set(d, 0.5f);  // 0.5 + a subnormal f16 has its rounded bits at the bottom of the fraction
  const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, abs), half)), hn::BitCast(di, half));
  const auto odd = hn::And(hn::ShiftRight<13>(abs), hn::Set(di, 1));
  const auto rebased = hn::Add(abs, hn::Add(odd, hn::Set(di, ((15 - 127) * (1 << 23)) + 0xfff)));
  const auto beyond = hn::IfThenElse(hn::Gt(abs, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), hn::Set(di, 0x7c00));
  auto to = hn::IfThenElse(hn::Lt(abs, hn::Set(di, 113 << 23)), subnormal, hn::ShiftRight<13>(rebased));
  to = hn::IfThenElse(hn::Gt(abs, hn::Set(di, (143 << 23) - 1)), beyond, to);
  return hn::TruncateTo(hn::Rebind<uint16_t, D>(), hn::Or(hn::BitCast(hn::RebindToUnsigned<D>(), to), sign));
#endif
}

// The bits of a half, T, from f32, rounded to nearest even. A NaN stays a NaN.
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
using Bits = std::conditional_t<is_half<T>, uint16_t, T>;  // the type that vectors load and store
template <class T>
HWY_INLINE const Bits<T>* bits_of(const T* p) {
  return reinterpret_cast<const Bits<T>*>(p);
}
template <class T>
HWY_INLINE Bits<T>* bits_of(T* p) {
  return reinterpret_cast<Bits<T>*>(p);
}

// --- memory ------------------------------------------------------------------------------------------------------

// The whole vector at p.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_as_f32(D d, const T* p) {
  if constexpr (is_half<T>)
    return widen<T>(d, hn::LoadU(hn::Rebind<uint16_t, D>(), bits_of(p)));
  else
    return hn::LoadU(d, p);
}

// The first min(left, lanes) elements at p; the other lanes hold `pad`. Reads nothing beyond them.
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

// One element, as f32.
template <class T>
HWY_INLINE float element(const T* p) {
  return hn::GetLane(load_as_f32(hn::CappedTag<float, 1>(), p));
}

// The whole vector to p.
template <class D, class T>
HWY_INLINE void store_f32_as(D d, hn::Vec<D> v, T* p) {
  if constexpr (is_half<T>)
    hn::StoreU(narrow<T>(d, v), hn::Rebind<uint16_t, D>(), bits_of(p));
  else
    hn::StoreU(v, d, p);
}

// The first min(left, lanes) elements to p. Writes nothing beyond them.
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

// The whole vector to p: past the caches with kStream, otherwise as store_f32_as. With kStream, p must be aligned to a
// vector of T, and hwy::FlushStream() must follow the last store. Highway cannot stream vectors below 16 bytes: those
// are stored.
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

// How many elements lie before the first address from p on that is aligned to a vector of as many T as D has lanes; at
// most n.
template <class D, class T>
HWY_INLINE int64_t elements_to_alignment(D d, const T* p, int64_t n) {
  const uintptr_t unit = hn::Lanes(d) * sizeof(T);
  const uintptr_t over = reinterpret_cast<uintptr_t>(p) % unit;
  return over == 0 ? 0 : HWY_MIN(n, static_cast<int64_t>((unit - over) / sizeof(T)));
}

// y[i] = f(x[i], ...) over n elements, four vectors at a time so that their loads overlap. kStream writes past the
// caches, and hwy::FlushStream() must follow.
template <bool kStream, class D, class F, class T, class... X>
HWY_INLINE void map(D d, int64_t n, const F& f, T* y, const X*... x) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Up to the alignment of y.
  int64_t i = 0;
  if (kStream) {
    i = elements_to_alignment(d, y, n);
    if (i > 0) store_f32_as(d, f(load_as_f32(d, x, i)...), y, i);
  }
  // Four vectors at a time, then single ones, then the partial one.
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
// The same with `stream` decided at run time, and the flush included.
template <class D, class F, class T, class... X>
HWY_INLINE void map(D d, bool stream, int64_t n, const F& f, T* y, const X*... x) {
  if (!stream) return map<false>(d, n, f, y, x...);
  map<true>(d, n, f, y, x...);
  hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
