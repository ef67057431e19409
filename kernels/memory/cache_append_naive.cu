// SPDX-License-Identifier: Apache-2.0
// One thread per element of x, in order. A thread finds its token, head and sequence by divisions.
#include "simt/launch.h"
#include "ops/memory/cache_append.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. x: (heads, tokens, d) of `elements` elements, a head
// being one of a sequence and a split; cache: (heads, room, d). heads_each: of a sequence.
template <class T>
__global__ void append_kernel(const T* x, const int32_t* position, T* cache, int64_t elements, int64_t sequences,
                              int64_t heads_each, int64_t tokens, int64_t d, int64_t room) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t t = i / d % tokens, head = i / (d * tokens);
  const int64_t row = position[head / heads_each % sequences] + t;
  if (row >= 0 && row < room) cache[(head * room + row) * d + i % d] = x[i];
}

Plan cache_append_naive(const CacheAppend& p, GpuContext& gpu) {
  using P = CacheAppend;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.heads() * p.T * p.D;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(append_kernel<T>, grid, t[P::x].as<const T>(), t[P::position].as<const int32_t>(), t[P::cache].as<T>(),
             elements, p.B, p.H, p.T, p.D, p.C);
    };
  });
}
DUET_REGISTER(cache_append_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
