// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "simt/launch.h"
#include "ops/optimiser/clip_grad_norm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. norm: (1), g: (n).
template <class T>
__global__ void clip_kernel(const float* norm, T* g, int64_t n, float max_norm, float guard) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) g[i] = T(float(g[i]) * fminf(1, max_norm / (*norm + guard)));
}

Plan clip_grad_norm_naive(const ClipGradNorm& p, GpuContext& gpu) {
  using P = ClipGradNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(clip_kernel<T>, grid, t[P::norm].as<const float>(), t[P::g].as<T>(), p.n, static_cast<float>(p.max_norm),
             static_cast<float>(P::kGuard));
    };
  });
}
DUET_REGISTER(clip_grad_norm_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
