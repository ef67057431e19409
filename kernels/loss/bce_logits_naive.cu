// SPDX-License-Identifier: Apache-2.0
// Forward: one block adds all elements. Each thread adds every kThreads-th element, and a tree adds the threads' sums,
// in double, so that rounding is small for any number of elements. Backward: one thread per element.
#include "kernels/activation.cuh"
#include "simt/launch.h"
#include "ops/loss/bce_logits.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// One block of kThreads, kThreads doubles of shared memory. x, t: (n), loss: (1), which is 0 where n is 0.
template <class T>
__global__ void bce_logits_kernel(const T* x, const T* t, float* loss, int64_t n) {
  DUET_SHARED(double, part, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t i = thread; i < n; i += kThreads) {
    const float v = float(x[i]), target = float(t[i]);
    sum += fmaxf(v, 0) - v * target + log1pf(expf(-fabsf(v)));
  }

  // Tree over the threads' sums.
  part[thread] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) *loss = n > 0 ? static_cast<float>(part[0] / n) : 0;
}

Plan bce_logits_naive(const BceLogits& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch(bce_logits_kernel<T>, Grid{.blocks = 1, .threads = kThreads, .stream = stream},
             t[BceLogits::x].as<const T>(), t[BceLogits::t].as<const T>(), t[BceLogits::loss].as<float>(), p.n);
    };
  });
}
DUET_REGISTER(bce_logits_naive);

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, t, dx: (n); loss_scale: null, or (1).
template <class T>
__global__ void bce_logits_backward_kernel(const T* x, const T* t, T* dx, int64_t n, float scale,
                                           const float* loss_scale) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(x[i]), target = float(t[i]);
  dx[i] = T(scale * (loss_scale ? *loss_scale : 1) * (sigmoid(v) - target) / n);
}

Plan bce_logits_backward_naive(const BceLogitsBackward& p, GpuContext& gpu) {
  using P = BceLogitsBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(bce_logits_backward_kernel<T>, grid, t[P::x].as<const T>(), t[P::t].as<const T>(), t[P::dx].as<T>(), p.n,
             static_cast<float>(p.scale), p.scaled ? t[P::loss_scale].as<const float>() : nullptr);
    };
  });
}
DUET_REGISTER(bce_logits_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
