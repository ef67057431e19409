// SPDX-License-Identifier: Apache-2.0
// A block takes the heads of some adjacent tokens. First its threads share the sines and cosines of these tokens, which
// all heads need, and leave them in shared memory; then a thread reads 16 bytes from each half of a head, turns them
// and writes 16 bytes to each half.
#include <algorithm>

#include "kernels/divider.cuh"
#include "kernels/elementwise/rope.cuh"
#include "kernels/vector.cuh"
#include "ops/elementwise/rope.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;
constexpr int64_t kUnitsOfBlock = 4 * kThreads;  // a unit: packs of both halves of a head
constexpr int64_t kMaxAngles = 48 * 1024 / 8;    // of a block: a sine and a cosine each
constexpr int64_t kMaxTokens = INT32_MAX - kUnitsOfBlock;

struct RopeShape {
  int64_t tokens;  // of all sequences
  int tokens_of_block, heads, half;
  Divider by_half, by_length, by_packs, by_heads;  // length: of a sequence; packs: of half a head
};

// ceil(tokens / tokens_of_block) blocks of kThreads. Shared memory: tokens_of_block * half cosines, then as many sines.
// x, y: (tokens, heads, 2 half); y may be x: a thread reads its packs before it writes them. kSize divides half.
// position: of each sequence's first token; null: 0.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads)
    rope_kernel(const T* x, T* y, const int32_t* position, RopeShape shape, RopeTurns turns) {
  DUET_DYN_SHARED(float, shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = int64_t{blockIdx.x} * shape.tokens_of_block;
  const int tokens = static_cast<int>(min(int64_t{shape.tokens_of_block}, shape.tokens - first));
  float* const cosines = shared;
  float* const sines = shared + shape.tokens_of_block * shape.half;

  // Sines and cosines.
  for (int i = thread; i < tokens * shape.half; i += kThreads) {
    uint32_t token = static_cast<uint32_t>(i);
    const int j = shape.by_half.split(token);
    token += static_cast<uint32_t>(first);
    const int t = shape.by_length.split(token);  // token: now its sequence
    const SinCos angle = turns.at(position ? int64_t{position[token]} + t : t, static_cast<uint32_t>(j));
    cosines[i] = angle.cos;
    sines[i] = angle.sin;
  }
  __syncthreads();

  // Turn the pairs.
  constexpr int kQuad = kSize < 4 ? 1 : 4;  // floats of an access to shared memory
  const int packs = shape.half / kSize, units = tokens * shape.heads * packs;
  x += first * shape.heads * 2 * shape.half;
  y += first * shape.heads * 2 * shape.half;
  for (int unit = thread; unit < units; unit += kThreads) {
    uint32_t head = static_cast<uint32_t>(unit);
    const int j = shape.by_packs.split(head) * kSize;
    const int angle = static_cast<int>(shape.by_heads(head)) * shape.half + j;
    const int64_t at = int64_t{head} * 2 * shape.half + j;
    auto a = load_pack<kSize>(x + at), b = load_pack<kSize>(x + at + shape.half);
#pragma unroll
    for (int q = 0; q < kSize; q += kQuad) {
      const auto c = load_pack<kQuad>(cosines + angle + q), s = load_pack<kQuad>(sines + angle + q);
#pragma unroll
      for (int e = 0; e < kQuad; ++e) {
        const float u = float(a.at[q + e]), v = float(b.at[q + e]);
        a.at[q + e] = T(u * c.at[e] - v * s.at[e]);
        b.at[q + e] = T(v * c.at[e] + u * s.at[e]);
      }
    }
    store_pack(y + at, a);
    store_pack(y + at + shape.half, b);
  }
}

// P: Rope or RopeBackward.
template <class P>
Plan plan(const P& p, int sign, Slot from, Slot to, GpuContext& gpu) {
  const int64_t half = p.D / 2, tokens = p.B * p.T;
  if (half > kMaxAngles) return Unsupported{"heads of more than 12288 elements, whose angles exceed shared memory"};
  if (tokens > kMaxTokens) return Unsupported{"nearly 2^31 tokens or more"};
  if (p.H * half > INT32_MAX / kUnitsOfBlock) return Unsupported{"tokens of more than 2^22 elements"};
  if (half * p.H == 0) return [](Args) {};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const auto shape_of = [p, half, tokens](int64_t pack) {
      const int64_t packs = half / pack, wanted = kUnitsOfBlock / (p.H * packs);
      return RopeShape{.tokens = tokens,
                       .tokens_of_block = static_cast<int>(std::clamp<int64_t>(wanted, 1, kMaxAngles / half)),
                       .heads = static_cast<int>(p.H),
                       .half = static_cast<int>(half),
                       .by_half = Divider(half),
                       .by_length = Divider(p.T),
                       .by_packs = Divider(packs),
                       .by_heads = Divider(p.H)};
    };
    return [p, from, to, half, wide = shape_of(half % kPack<T> == 0 ? kPack<T> : 1), single = shape_of(1),
            turns = RopeTurns(p.D, p.base, sign), stream = gpu.stream()](Args t) {
      const T* x = t[from].as<const T>();
      T* y = t[to].as<T>();
      const bool packs = half % kPack<T> == 0 && aligned16(x, y);
      const RopeShape& shape = packs ? wide : single;
      const Grid grid{.blocks = ceil_div(shape.tokens, int64_t{shape.tokens_of_block}),
                      .threads = kThreads,
                      .shared_bytes = shape.tokens_of_block * half * 2 * int64_t{sizeof(float)},
                      .stream = stream};
      const int32_t* position = position_of(p, t);
      packs ? launch(rope_kernel<T, kPack<T>>, grid, x, y, position, shape, turns)
            : launch(rope_kernel<T, 1>, grid, x, y, position, shape, turns);
    };
  });
}

Plan rope_tuned(const Rope& p, GpuContext& gpu) { return plan(p, 1, Rope::x, Rope::y, gpu); }
DUET_REGISTER(rope_tuned);

Plan rope_backward_tuned(const RopeBackward& p, GpuContext& gpu) {
  return plan(p, -1, RopeBackward::dy, RopeBackward::dx, gpu);
}
DUET_REGISTER(rope_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
