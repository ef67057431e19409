// SPDX-License-Identifier: Apache-2.0
// permute: a copy between the order of tokens and the order of heads, with vectors of elements of 2 or 4 bytes. Threads
// share the tokens. On one side of the copy the heads of a token lie side by side; on the other side each head has a
// run of D elements for each token, one token after the other. y is written past the caches when the tensors exceed
// them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/permute_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/permute.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Tokens [first, last) of all sequences.
template <bool kStream, class T>
void permute_tokens_of(const Permute& p, const T* x, T* y, int64_t first, int64_t last) {
  const hn::ScalableTag<T> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  // Heads often lie a power of two apart. Reading one token of each head in turn would then evict from L1 what has been
  // fetched ahead. So the inverse reads some tokens of one head, then of the next.
  const int64_t tokens_at_once = p.inverse ? 16 : 1;
  for (int64_t token = first; token < last;) {
    const int64_t b = token / p.T, t = token % p.T, count = std::min({tokens_at_once, last - token, p.T - t});
    for (int64_t s = 0; s < p.split; ++s)
      for (int64_t h = 0; h < p.H; ++h) {
        T* to = y + (p.inverse ? (token * p.split + s) * p.H + h : ((s * p.B + b) * p.H + h) * p.T + t) * p.D;
        const T* from = x + (p.inverse ? ((s * p.B + b) * p.H + h) * p.T + t : (token * p.split + s) * p.H + h) * p.D;
        for (int64_t i = 0; i < count; ++i)  // count is 1 unless this is the inverse
          map<kStream>(d, p.D, same, to + i * p.split * p.H * p.D, from + i * p.D);
      }
    token += count;
  }
  if (kStream) hwy::FlushStream();
}

void permute_tokens(const Permute& p, Args t, int64_t first, int64_t last, bool stream) {
  const auto run = [&]<class T>() HWY_ATTR {
    const auto* x = static_cast<const T*>(t[Permute::x].data);
    auto* y = static_cast<T*>(t[Permute::y].data);
    (stream ? permute_tokens_of<true, T> : permute_tokens_of<false, T>)(p, x, y, first, last);
  };
  size_of(p.dtype) == 4 ? run.template operator()<uint32_t>() : run.template operator()<uint16_t>();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(permute_tokens);

Plan permute_tuned(const Permute& p, CpuContext& cpu) {
  if (size_of(p.dtype) != 2 && size_of(p.dtype) != 4) return Unsupported{"elements of neither 2 nor 4 bytes"};
  const int64_t width = p.split * p.H * p.D;  // elements of a token
  const bool stream = beyond_cache(2 * p.rows() * p.D * size_of(p.dtype)) && p.D * size_of(p.dtype) % 64 == 0;
  return [p, width, stream, &cpu](Args t) {
    cpu.parallel_for(p.B * p.T, rows_per_chunk(width), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(permute_tokens)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(permute_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
