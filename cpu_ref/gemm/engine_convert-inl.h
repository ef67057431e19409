// Vectors of f32 from and to memory of f32, bf16 or f16, of which only the first `left` lanes exist.
// Include after foreach_target, in every compiled target.
#if defined(DUET_ENGINE_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DUET_ENGINE_CONVERT_INL_H_
#undef DUET_ENGINE_CONVERT_INL_H_
#else
#define DUET_ENGINE_CONVERT_INL_H_
#endif
#include "core/dtype.h"
#include "core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> widen_bf16(D d, hn::Vec<hn::Rebind<uint16_t, D>> half) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
}
// Rounds to nearest even; a NaN stays one.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> narrow_bf16([[maybe_unused]] D d, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
  return hn::TruncateTo(d16, hn::ShiftRight<16>(chosen));
}

template <class D>
HWY_INLINE hn::Vec<D> widen(D d, hn::Vec<hn::Rebind<uint16_t, D>> half, DType dtype) {
  if (dtype == DType::bf16) return widen_bf16(d, half);
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
}

// Elements [at, at + lanes) of a tensor; lanes beyond `left` are 0.
template <class D>
HWY_INLINE hn::Vec<D> load_as_f32(D d, const void* data, DType dtype, int64_t at, int64_t left) {
  if (dtype == DType::f32) return duet::HWY_NAMESPACE::load(d, static_cast<const float*>(data) + at, left, 0.0f);
  const hn::Rebind<uint16_t, D> d16;
  return widen(d, duet::HWY_NAMESPACE::load(d16, static_cast<const uint16_t*>(data) + at, left, uint16_t{0}), dtype);
}

template <class D>
HWY_INLINE void store_from_f32(D d, hn::Vec<D> v, void* data, DType dtype, int64_t at, int64_t left) {
  if (dtype == DType::f32) return duet::HWY_NAMESPACE::store(d, v, static_cast<float*>(data) + at, left);
  const hn::Rebind<uint16_t, D> d16;
  const auto half = dtype == DType::bf16
                        ? narrow_bf16(d, v)
                        : hn::BitCast(d16, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
  duet::HWY_NAMESPACE::store(d16, half, static_cast<uint16_t*>(data) + at, left);
}

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per target
