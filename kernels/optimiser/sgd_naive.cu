// One thread per parameter, in order: every warp reads and writes runs of memory.
#include "simt/launch.h"
#include "ops/optimiser/sgd.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n / kThreads) blocks of kThreads, no shared memory. g, p, v: (n), lr: (1).
template <class T>
__global__ void sgd_kernel(const T* g, const float* lr, T* p, T* v, int64_t n, float momentum, float weight_decay,
                           bool nesterov) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float d = float(g[i]) + weight_decay * float(p[i]);
  const float velocity = momentum * float(v[i]) + d;
  v[i] = T(velocity);
  p[i] = T(float(p[i]) - *lr * (nesterov ? d + momentum * velocity : velocity));
}

Plan sgd_naive(const Sgd& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(sgd_kernel<T>, grid, t[Sgd::g].as<const T>(), t[Sgd::lr].as<const float>(), t[Sgd::p].as<T>(),
             t[Sgd::v].as<T>(), p.n, static_cast<float>(p.momentum), static_cast<float>(p.weight_decay), p.nesterov);
    };
  });
}
DUET_REGISTER(sgd_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
