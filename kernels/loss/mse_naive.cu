// SPDX-License-Identifier: Apache-2.0
// Forward: one block adds all elements. Each thread adds every kThreads-th element, and a tree adds the threads' sums,
// in double, so that rounding is small for any number of elements. Backward: one thread per element.
#include "simt/launch.h"
#include "ops/loss/mse.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// One block of kThreads, kThreads doubles of shared memory. x, t: (n), loss: (1), which is 0 where n is 0.
template <class T>
__global__ void mse_kernel(const T* x, const T* t, float* loss, int64_t n) {
  DUET_SHARED(double, part, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t i = thread; i < n; i += kThreads) {
    const float v = float(x[i]), target = float(t[i]);
    sum += (v - target) * (v - target);
  }

  // Tree over the threads' sums.
  part[thread] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) *loss = n > 0 ? static_cast<float>(part[0] / n) : 0;
}

Plan mse_naive(const Mse& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch(mse_kernel<T>, Grid{.blocks = 1, .threads = kThreads, .stream = stream}, t[Mse::x].as<const T>(),
             t[Mse::t].as<const T>(), t[Mse::loss].as<float>(), p.n);
    };
  });
}
DUET_REGISTER(mse_naive);

// ceil(n / kThreads) blocks of kThreads, no shared memory. x, t, dx: (n).
template <class T>
__global__ void mse_backward_kernel(const T* x, const T* t, T* dx, int64_t n, float scale) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const float v = float(x[i]), target = float(t[i]);
  dx[i] = T(scale * 2 * (v - target) / n);
}

Plan mse_backward_naive(const MseBackward& p, GpuContext& gpu) {
  using P = MseBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(mse_backward_kernel<T>, grid, t[P::x].as<const T>(), t[P::t].as<const T>(), t[P::dx].as<T>(), p.n,
             static_cast<float>(p.scale));
    };
  });
}
DUET_REGISTER(mse_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
