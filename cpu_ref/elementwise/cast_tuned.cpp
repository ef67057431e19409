// SPDX-License-Identifier: Apache-2.0
// cast with vectors: every element goes through f32, which holds each value of the halves exactly. Threads share the
// elements in chunks (chunks.h); results that would not stay in cache are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/elementwise/cast_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/elementwise/cast.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void cast_chunk(const Cast& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  for_float(p.dtype, [&]<class From>() HWY_ATTR {
    for_float(p.to, [&]<class To>() HWY_ATTR {
      map(d, stream, last - first, same, t[Cast::y].as<To>() + first, t[Cast::x].as<const From>() + first);
    });
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(cast_chunk);

Plan cast_tuned(const Cast& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype) || !is_simd_dtype(p.to)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(p.n * (size_of(p.dtype) + size_of(p.to)));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(cast_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(cast_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
