// SPDX-License-Identifier: Apache-2.0
// unscale in one pass: y = g / scale, and a flag that says whether an element of g is not finite. Threads share the
// elements in chunks (chunks.h). Results that would not stay in cache are written past it (streaming.h), but not over
// g: those lines have been read anyway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/unscale_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <atomic>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/unscale.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Returns whether all elements of the chunk are finite. 0 times a finite value is 0, and 0 times an infinity or NaN is
// NaN, which a sum keeps: so one sum of these products answers for all elements.
bool unscale_chunk(DType dtype, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const auto inverse = hn::Set(d, 1 / *t[Unscale::scale].as<const float>()), zero = hn::Zero(d);
  auto zeros = zero;
  for_float(dtype, [&]<class T>() HWY_ATTR {
    const auto divide = [&](auto v) HWY_ATTR {
      zeros = hn::MulAdd(v, zero, zeros);
      return hn::Mul(v, inverse);
    };
    map(d, stream, last - first, divide, t[Unscale::y].as<float>() + first, t[Unscale::g].as<const T>() + first);
  });
  return hn::GetLane(hn::SumOfLanes(d, zeros)) == 0;
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(unscale_chunk);

Plan unscale_tuned(const Unscale& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool beyond = beyond_cache(p.n * (size_of(p.dtype) + size_of(DType::f32)));
  return [p, beyond, &cpu](Args t) {
    const bool stream = beyond && t[Unscale::y].data != t[Unscale::g].data;
    std::atomic<bool> bad = false;
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      if (!HWY_DYNAMIC_DISPATCH(unscale_chunk)(p.dtype, t, first, last, stream)) bad = true;
    });
    *t[Unscale::bad].as<int32_t>() = bad;
  };
}
DUET_REGISTER(unscale_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
