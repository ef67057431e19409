// SPDX-License-Identifier: Apache-2.0
// fill with vectors of one value. Threads share the elements in chunks (chunks.h); results that would not stay in cache
// are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/fill_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/fill.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void fill_chunk(const FillValue& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const auto v = hn::Set(d, static_cast<float>(p.value));
  const auto value = [v]() HWY_ATTR { return v; };
  for_float(p.dtype, [&]<class T>() HWY_ATTR { map(d, stream, last - first, value, t[FillValue::y].as<T>() + first); });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(fill_chunk);

Plan fill_tuned(const FillValue& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  FillValue rounded = p;
  rounded.value = round_to(p.dtype, p.value);  // rounded here once; the way through f32 then loses nothing
  const bool stream = beyond_cache(p.n * size_of(p.dtype));
  return [p = rounded, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(fill_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(fill_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
