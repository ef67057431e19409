// SPDX-License-Identifier: Apache-2.0
// One thread per pair, which computes its sine and cosine: heads of one token compute the same ones again. Neighbouring
// threads have neighbouring pairs, so that both halves of a head are read and written in runs.
#include "kernels/elementwise/rope.cuh"
#include "ops/elementwise/rope.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(pairs / kThreads) blocks of kThreads, no shared memory. x, y: (B, T, H, 2 half); y may be x. position: (B), of
// each sequence's first token; null: 0.
template <class T>
__global__ void rope_kernel(const T* x, T* y, const int32_t* position, int64_t pairs, int64_t tokens, int64_t heads,
                            int64_t half, RopeTurns turns) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= pairs) return;
  const int64_t head = i / half, j = i - head * half, at = head * 2 * half + j;
  const int64_t t = head / heads % tokens + (position ? position[head / heads / tokens] : 0);
  const SinCos angle = turns.at(t, static_cast<uint32_t>(j));
  const float a = float(x[at]), b = float(x[at + half]);
  y[at] = T(a * angle.cos - b * angle.sin);
  y[at + half] = T(b * angle.cos + a * angle.sin);
}

// P: Rope or RopeBackward.
template <class P>
Plan plan(const P& p, int sign, Slot from, Slot to, GpuContext& gpu) {
  if (p.D / 2 > RopeTurns::kMaxPairs) return Unsupported{"heads of more than 2^21 elements"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t half = p.D / 2, pairs = p.B * p.T * p.H * half;
    const Grid grid{.blocks = ceil_div(pairs, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, half, pairs, from, to, turns = RopeTurns(p.D, p.base, sign)](Args t) {
      launch(rope_kernel<T>, grid, t[from].as<const T>(), t[to].as<T>(), position_of(p, t), pairs, p.T, p.H, half,
             turns);
    };
  });
}

Plan rope_naive(const Rope& p, GpuContext& gpu) { return plan(p, 1, Rope::x, Rope::y, gpu); }
DUET_REGISTER(rope_naive);

Plan rope_backward_naive(const RopeBackward& p, GpuContext& gpu) {
  return plan(p, -1, RopeBackward::dy, RopeBackward::dx, gpu);
}
DUET_REGISTER(rope_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
