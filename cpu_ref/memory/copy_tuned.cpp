// SPDX-License-Identifier: Apache-2.0
// copy with vectors of bytes, whatever the element type. Threads share the bytes in chunks (chunks.h); results that
// would not stay in cache are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/copy_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/copy.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void copy_bytes(const uint8_t* x, uint8_t* y, int64_t bytes, bool stream) {
  const hn::ScalableTag<uint8_t> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  map(d, stream, bytes, same, y, x);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(copy_bytes);
constexpr int64_t kUnit = 4;  // bytes that count as an element, so that a chunk is 64 KiB

Plan copy_tuned(const Copy& p, CpuContext& cpu) {
  const int64_t bytes = p.n * size_of(p.dtype);
  const bool stream = beyond_cache(2 * bytes);
  return [bytes, stream, &cpu](Args t) {
    const auto* x = static_cast<const uint8_t*>(t[Copy::x].data);
    auto* y = static_cast<uint8_t*>(t[Copy::y].data);
    parallel_chunks(cpu, ceil_div(bytes, kUnit), [&](int64_t first, int64_t last) {
      const int64_t from = first * kUnit, to = std::min(bytes, last * kUnit);
      HWY_DYNAMIC_DISPATCH(copy_bytes)(x + from, y + from, to - from, stream);
    });
  };
}
DUET_REGISTER(copy_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
