// SPDX-License-Identifier: Apache-2.0
// One thread per parameter, in order: every warp reads and writes runs of memory. A second launch counts the step.
#include "kernels/optimiser/adam.cuh"
#include "kernels/optimiser/mixed.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. g, m, v: (n); bad, from, to: as for_state passes them.
template <class G, class T, class S>
__global__ void adam_kernel(AdamUpdate update, const G* g, const int32_t* bad, S* from, S* m, S* v, T* to, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n || (bad && *bad != 0)) return;
  float state[2] = {float(m[i]), float(v[i])};
  const float updated = update.prepare()(float(g[i]), float(from[i]), state);
  m[i] = S(state[0]);
  v[i] = S(state[1]);
  from[i] = S(updated);
  if (to) to[i] = T(updated);
}

template <class P>
Plan plan_of(const P& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      for_state<T>(p, t, [&]<class S>(S* from, T* to, const int32_t* bad) {
        using G = mixed::Gradient<T, S>;
        launch(adam_kernel<G, T, S>, grid, adam_update(p, t), t[P::g].template as<const G>(), bad, from,
               t[P::m].template as<S>(), t[P::v].template as<S>(), to, p.n);
        launch(count_step_kernel, Grid{.stream = grid.stream}, t[P::step].template as<int32_t>(), bad);
      });
    };
  });
}

Plan adam_naive(const Adam& p, GpuContext& gpu) { return plan_of(p, gpu); }
DUET_REGISTER(adam_naive);
Plan adamw_naive(const AdamW& p, GpuContext& gpu) { return plan_of(p, gpu); }
DUET_REGISTER(adamw_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
