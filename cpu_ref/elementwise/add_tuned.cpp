// SPDX-License-Identifier: Apache-2.0
// add with vectors of f32: c = act(a + b). Threads share the elements in chunks (chunks.h); results that would not stay
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
void add_chunk(const Add& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const auto sum = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  const auto positive_sum = [d](auto a, auto b) HWY_ATTR { return hn::Max(hn::Add(a, b), hn::Zero(d)); };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto *a = t[Add::a].as<const T>() + first, *b = t[Add::b].as<const T>() + first;
    auto* c = t[Add::c].as<T>() + first;
    p.act == Act::relu ? map(d, stream, last - first, positive_sum, c, a, b)
                       : map(d, stream, last - first, sum, c, a, b);
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
      HWY_DYNAMIC_DISPATCH(add_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(add_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
