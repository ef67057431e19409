// SPDX-License-Identifier: Apache-2.0
// One thread per element, in order: every warp reads and writes runs of memory.
#include "kernels/optimiser/clip.cuh"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. g: (n).
template <class T>
__global__ void clip_kernel(Clip clip, T* g, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) g[i] = T(float(g[i]) * clip.factor());
}

Plan clip_grad_norm_naive(const ClipGradNorm& p, GpuContext& gpu) {
  using P = ClipGradNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      const Clip clip{t[P::norm].as<const float>(), static_cast<float>(p.max_norm)};
      launch(clip_kernel<T>, grid, clip, t[P::g].as<T>(), p.n);
    };
  });
}
DUET_REGISTER(clip_grad_norm_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
