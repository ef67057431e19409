// SPDX-License-Identifier: Apache-2.0
// cache_append: the new tokens of a head lie side by side in x and in the cache, so that each head is one copy by the C
// library. Threads share the heads.
#include <cstring>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "ops/memory/cache_append.h"

namespace duet {
namespace {

Plan cache_append_tuned(const CacheAppend& p, CpuContext& cpu) {
  const int64_t row = p.D * size_of(p.dtype);  // bytes
  return [p, row, &cpu](Args t) {
    const auto* x = static_cast<const char*>(t[CacheAppend::x].data);
    auto* cache = static_cast<char*>(t[CacheAppend::cache].data);
    const auto* position = t[CacheAppend::position].as<const int32_t>();
    cpu.parallel_for(p.heads(), rows_per_chunk(p.T * p.D), [&](int64_t first, int64_t last) {
      for (int64_t head = first; head < last; ++head) {
        const int64_t at = position[head / p.H % p.B];
        const int64_t begin = std::max<int64_t>(0, -at), end = std::min(p.T, p.C - at);  // tokens that have a row
        if (begin < end)
          std::memcpy(cache + (head * p.C + at + begin) * row, x + (head * p.T + begin) * row,
                      static_cast<size_t>((end - begin) * row));
      }
    });
  };
}
DUET_REGISTER(cache_append_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
