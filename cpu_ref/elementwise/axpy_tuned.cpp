// SPDX-License-Identifier: Apache-2.0
// axpy with vectors of f32. Threads share the elements in chunks (chunks.h). y was read, so that its lines are in cache
// when they are written: nothing bypasses the caches.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/axpy_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "ops/elementwise/axpy.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void axpy_chunk(const Axpy& p, Args t, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto alpha = hn::Set(d, static_cast<float>(p.alpha));
  const auto step = [alpha](auto y, auto x) HWY_ATTR { return hn::MulAdd(alpha, x, y); };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    T* y = t[Axpy::y].as<T>() + first;
    map<false>(d, last - first, step, y, static_cast<const T*>(y), t[Axpy::x].as<const T>() + first);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(axpy_chunk);

Plan axpy_tuned(const Axpy& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    if (static_cast<float>(p.alpha) == 0) return;
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(axpy_chunk)(p, t, first, last);
    });
  };
}
DUET_REGISTER(axpy_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
