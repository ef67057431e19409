// SPDX-License-Identifier: Apache-2.0
// fill with vectors of one value. Threads share the elements in chunks (chunks.h); results that would not stay in cache
// are written past it (streaming.h): zeros by non-temporal stores, other values on x86 by the CPU's own fill
// instruction. On an EPYC with AVX-512, 64 MiB of ones take 0.8 of the time that non-temporal stores take. These move
// no data for zeros, where memset, cpu.libc, takes 1.1 to 1.4 times as long (bench_all --filter '^fill/').
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/fill_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cstring>

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

#if defined(__x86_64__)
// As many elements as fit into a word.
uint64_t pattern_of(const FillValue& p) {
  uint64_t pattern = 0;
  const int64_t size = size_of(p.dtype);
  for (int64_t at = 0; at < int64_t{sizeof pattern}; at += size) store_double(&pattern, p.dtype, at / size, p.value);
  return pattern;
}
void fill_string(char* to, uint64_t pattern, int64_t bytes) {
  int64_t words = bytes / int64_t{sizeof pattern};
  const auto rest = static_cast<size_t>(bytes % int64_t{sizeof pattern});
  asm volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(pattern) : "memory");
  std::memcpy(to, &pattern, rest);
}
#endif

Plan fill_tuned(const FillValue& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  FillValue rounded = p;
  rounded.value = round_to(p.dtype, p.value);  // rounded here once; the way through f32 then loses nothing
  const bool stream = beyond_cache(p.n * size_of(p.dtype));
#if defined(__x86_64__)
  if (const uint64_t pattern = pattern_of(rounded); stream && pattern != 0) {
    return [n = p.n, size = size_of(p.dtype), pattern, &cpu](Args t) {
      auto* y = static_cast<char*>(t[FillValue::y].data);
      parallel_chunks(
          cpu, n, [&](int64_t first, int64_t last) { fill_string(y + first * size, pattern, (last - first) * size); });
    };
  }
#endif
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
