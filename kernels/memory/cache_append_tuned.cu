// SPDX-License-Identifier: Apache-2.0
// One 16-byte access per thread and tensor, in the order of x. The new tokens of a head lie side by side in x and in
// the cache, so that an element of x is as far from the first one of its head as in the cache: no thread finds its
// token.
#include "kernels/divider.cuh"
#include "kernels/vector.cuh"
#include "ops/memory/cache_append.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int64_t kMaxElements = INT32_MAX;

// A map_grid(packs, 1), no shared memory. by_head divides by the packs of kSize elements in the tokens of a head,
// by_heads by the heads of a sequence, by_sequences by their number. room: elements of a head of the cache.
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    append_kernel(const T* x, const int32_t* position, T* cache, uint32_t packs, Divider by_head, Divider by_heads,
                  Divider by_sequences, int64_t d, int64_t room) {
  const uint32_t pack = blockIdx.x * kMapBlock + threadIdx.x;
  if (pack >= packs) return;
  uint32_t head = pack;
  const int within = by_head.split(head) * kSize;
  uint32_t sequence = by_heads(head);
  const int64_t at = int64_t{position[by_sequences.split(sequence)]} * d + within;
  if (at >= 0 && at < room) store_pack(cache + int64_t{head} * room + at, load_pack<kSize>(x + int64_t{pack} * kSize));
}

Plan cache_append_tuned(const CacheAppend& p, GpuContext& gpu) {
  using P = CacheAppend;
  const int64_t elements = p.heads() * p.T * p.D;
  if (elements > kMaxElements) return Unsupported{"more than 2^31 - 1 new elements"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, elements, stream = gpu.stream()](Args t) {
      const T* x = t[P::x].as<const T>();
      T* cache = t[P::cache].as<T>();
      const auto run = [&]<int kSize>() {
        const int64_t packs = elements / kSize;
        launch(append_kernel<T, kSize>, map_grid(packs, 1, stream), x, t[P::position].as<const int32_t>(), cache,
               static_cast<uint32_t>(packs), Divider(p.T * p.D / kSize), Divider(p.H), Divider(p.B), p.D, p.C * p.D);
      };
      p.D % kPack<T> == 0 && aligned16(x, cache) ? run.template operator()<kPack<T>>() : run.template operator()<1>();
    };
  });
}
DUET_REGISTER(cache_append_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
