// SPDX-License-Identifier: Apache-2.0
// dropout and its backward with vectors of f32. Threads share the elements in chunks (chunks.h). The random bits of
// some elements are first drawn into a buffer in L1. Philox makes bits in blocks of four; thanks to the buffer a vector
// of x may begin anywhere in such a block.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/dropout_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/philox-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

inline constexpr int64_t kDrawn = 1024;  // elements whose bits one buffer holds

// n <= kDrawn elements of x, y and mask. An element is kept when its bits are at least `threshold`, which is below
// 2^32. With kStream, y is aligned to a vector.
template <bool kStream, class T>
HWY_INLINE void drop(const T* x, const uint32_t* bits, uint32_t threshold, float scale, T* y, uint8_t* mask,
                     int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto min_kept = hn::Set(du, threshold), one = hn::Set(du, 1);
  const auto s = hn::Set(d, scale);
  HWY_ALIGN uint8_t last[HWY_MAX(16, hn::MaxLanes(d))];
  for (int64_t i = 0; i < n; i += lanes) {
    // Compare the bits.
    const auto dropped = hn::Lt(hn::LoadU(du, bits + i), min_kept);
    const auto kept = hn::TruncateTo(d8, hn::IfThenZeroElse(dropped, one));
    const auto v = hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Mul(load_as_f32(d, x + i, n - i), s));
    // Write y and the mask; the last vector may be partial.
    if (HWY_LIKELY(n - i >= lanes)) {
      stream_store<kStream>(d, v, y + i);
      hn::StoreU(kept, d8, mask + i);
    } else {
      store_f32_as(d, v, y + i, n - i);
      hn::StoreU(kept, d8, last);
      std::memcpy(mask + i, last, static_cast<size_t>(n - i));
    }
  }
}

template <bool kStream, class T>
void dropout_run(const Dropout& p, const T* x, uint64_t index, T* y, uint8_t* mask, int64_t n) {
  HWY_ALIGN uint32_t bits[kDrawn + 2 * kPhiloxUnit];
  const uint64_t threshold = dropout_threshold(p.p);
  const auto scale = static_cast<float>(dropout_scale(p.p));
  if (threshold >> 32) {  // p = 1: no 32-bit number reaches the threshold, so all elements are dropped
    std::memset(static_cast<void*>(y), 0, static_cast<size_t>(n) * sizeof(T));
    std::memset(mask, 0, static_cast<size_t>(n));
    return;
  }
  const hn::ScalableTag<float> d;
  int64_t count = kStream ? elements_to_alignment(d, y, n) : 0;  // the first part ends where y is aligned
  for (int64_t i = 0; i < n; i += count, count = 0) {
    if (count == 0) count = std::min(kDrawn, n - i);
    const uint64_t first = index + static_cast<uint64_t>(i);
    const auto skip = static_cast<int64_t>(first & 3);  // bits of the first block that belong to elements before
    philox_fill(first >> 2, static_cast<uint64_t>(p.seed), bits, ceil_div(skip + count, kPhiloxUnit) * kPhiloxUnit);
    drop<kStream>(x + i, bits + skip, static_cast<uint32_t>(threshold), scale, y + i, mask + i, count);
  }
  if (kStream) hwy::FlushStream();
}

void dropout_chunk(const Dropout& p, Args t, int64_t first, int64_t last, bool stream) {
  const uint64_t index = dropout_index(*t[Dropout::offset].as<const int32_t>(), first);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? dropout_run<true, T> : dropout_run<false, T>)(p, t[Dropout::x].as<const T>() + first, index,
                                                            t[Dropout::y].as<T>() + first,
                                                            t[Dropout::mask].as<uint8_t>() + first, last - first);
  });
}

template <bool kStream, class T>
void dropout_backward_run(const T* dy, const uint8_t* mask, float scale, T* dx, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, scale);
  HWY_ALIGN uint8_t part[HWY_MAX(16, hn::MaxLanes(d))] = {};
  const int64_t head = kStream ? elements_to_alignment(d, dx, n) : 0;
  for (int64_t i = 0; i < n;) {
    const int64_t left = i < head ? head - i : n - i, count = std::min(left, lanes);
    // Load the mask. A partial one goes through a buffer, because a load would read beyond its end.
    const uint8_t* from = mask + i;
    if (count < lanes) from = static_cast<const uint8_t*>(std::memcpy(part, from, static_cast<size_t>(count)));
    const auto dropped = hn::Eq(hn::PromoteTo(du, hn::LoadU(d8, from)), hn::Zero(du));
    const auto v = hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Mul(load_as_f32(d, dy + i, count), s));
    // Write dx: up to its alignment and at its end in part.
    if (count == lanes && i >= head)
      stream_store<kStream>(d, v, dx + i);
    else
      store_f32_as(d, v, dx + i, count);
    i += count;
  }
  if (kStream) hwy::FlushStream();
}

void dropout_backward_chunk(const DropoutBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const auto scale = static_cast<float>(dropout_scale(p.p));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? dropout_backward_run<true, T>
            : dropout_backward_run<false, T>)(t[DropoutBackward::dy].as<const T>() + first,
                                              t[DropoutBackward::mask].as<const uint8_t>() + first, scale,
                                              t[DropoutBackward::dx].as<T>() + first, last - first);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(dropout_chunk);
HWY_EXPORT(dropout_backward_chunk);

Plan dropout_tuned(const Dropout& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(p.n * (2 * size_of(p.dtype) + 1));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(dropout_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(dropout_tuned);  // cpu.tuned

Plan dropout_backward_tuned(const DropoutBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(p.n * (2 * size_of(p.dtype) + 1));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(dropout_backward_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(dropout_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
