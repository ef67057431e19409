// SPDX-License-Identifier: Apache-2.0
// add with vectors of f32: c = a + b. Threads share the elements in chunks (chunks.h); results that would not stay
// in cache are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/add_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/add.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Elements [first, last) of a, b, c.
void add_chunk(DType dtype, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const auto sum = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  for_float(dtype, [&]<class T>() HWY_ATTR {
    const auto *a = t[Add::a].as<const T>() + first, *b = t[Add::b].as<const T>() + first;
    map(d, stream, last - first, sum, t[Add::c].as<T>() + first, a, b);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(add_chunk);

Plan add_tuned(const Add& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(add_chunk)(p.dtype, t, first, last, stream);
    });
  };
}
DUET_REGISTER(add_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
