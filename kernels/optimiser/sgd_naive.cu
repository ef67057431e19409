// SPDX-License-Identifier: Apache-2.0
// One thread per parameter, in order: every warp reads and writes runs of memory.
#include "kernels/optimiser/mixed.h"
#include "simt/launch.h"
#include "ops/optimiser/sgd.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. g, p, v: (n), lr: (1). Mixed: bad: (1); from: (n), the
// master parameters; `to` is p. Not mixed: from is p, and bad and `to` are null.
template <class G, class T, class S>
__global__ void sgd_kernel(const G* g, const float* lr, const int32_t* bad, S* from, S* v, T* to, int64_t n,
                           float momentum, float weight_decay, bool nesterov) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n || (bad && *bad != 0)) return;
  const float weight = float(from[i]), d = float(g[i]) + weight_decay * weight;
  const float velocity = momentum * float(v[i]) + d;
  const float updated = weight - *lr * (nesterov ? d + momentum * velocity : velocity);
  v[i] = S(velocity);
  from[i] = S(updated);
  if (to) to[i] = T(updated);
}

Plan sgd_naive(const Sgd& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      for_state<T>(p, t, [&]<class S>(S* from, T* to, const int32_t* bad) {
        using G = mixed::Gradient<T, S>;
        launch(sgd_kernel<G, T, S>, grid, t[Sgd::g].as<const G>(), t[Sgd::lr].as<const float>(), bad, from,
               t[Sgd::v].as<S>(), to, p.n, static_cast<float>(p.momentum), static_cast<float>(p.weight_decay),
               p.nesterov);
      });
    };
  });
}
DUET_REGISTER(sgd_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
