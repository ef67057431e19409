// SPDX-License-Identifier: Apache-2.0
// unscale in one pass: y = g / scale, and a flag that says whether an element of g is not finite. Threads share the
// elements in chunks (chunks.h). Stores go through the cache, because the optimiser reads y next.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/unscale_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <atomic>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "ops/elementwise/unscale.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Returns whether all elements of the chunk are finite. 0 times a finite value is 0, and 0 times an infinity or NaN is
// NaN, which a sum keeps: so one sum of these products answers for all elements.
bool unscale_chunk(DType dtype, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto inverse = hn::Set(d, 1 / *t[Unscale::scale].as<const float>()), zero = hn::Zero(d);
  auto zeros = zero;
  for_float(dtype, [&]<class T>() HWY_ATTR {
    const T* g = t[Unscale::g].as<const T>();
    float* y = t[Unscale::y].as<float>();
    for (int64_t i = first; i < last; i += lanes) {
      const auto v = load_as_f32(d, g + i, last - i);
      zeros = hn::MulAdd(v, zero, zeros);
      store_f32_as(d, hn::Mul(v, inverse), y + i, last - i);
    }
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
  return [p, &cpu](Args t) {
    std::atomic<bool> bad = false;
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      if (!HWY_DYNAMIC_DISPATCH(unscale_chunk)(p.dtype, t, first, last)) bad = true;
    });
    *t[Unscale::bad].as<int32_t>() = bad;
  };
}
DUET_REGISTER(unscale_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
