// SPDX-License-Identifier: Apache-2.0
// One thread per parameter, in order: every warp reads and writes runs of memory.
#include "kernels/optimiser/mixed.h"
#include "simt/launch.h"
#include "ops/optimiser/rmsprop.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. g, v: (n), lr: (1); bad, from, to: as for_state passes them.
template <class G, class T, class S>
__global__ void rmsprop_kernel(const G* g, const float* lr, const int32_t* bad, S* from, S* v, T* to, int64_t n,
                               float alpha, float one_minus_alpha, float eps) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n || (bad && *bad != 0)) return;
  const float gradient = float(g[i]), square = alpha * float(v[i]) + one_minus_alpha * gradient * gradient;
  const float updated = float(from[i]) - *lr * gradient / (sqrtf(square) + eps);
  v[i] = S(square);
  from[i] = S(updated);
  if (to) to[i] = T(updated);
}

Plan rmsprop_naive(const Rmsprop& p, GpuContext& gpu) {
  using P = Rmsprop;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      for_state<T>(p, t, [&]<class S>(S* from, T* to, const int32_t* bad) {
        using G = mixed::Gradient<T, S>;
        launch(rmsprop_kernel<G, T, S>, grid, t[P::g].as<const G>(), t[P::lr].as<const float>(), bad, from,
               t[P::v].as<S>(), to, p.n, static_cast<float>(p.alpha), static_cast<float>(1 - p.alpha),
               static_cast<float>(p.eps));
      });
    };
  });
}
DUET_REGISTER(rmsprop_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
