// SPDX-License-Identifier: Apache-2.0
// One block adds all squares. Each thread adds every kThreads-th one, and a tree adds the threads' sums, in double, so
// that rounding is small for any number of elements.
#include "simt/launch.h"
#include "ops/reduction/norm2.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// One block of kThreads, kThreads doubles of shared memory. x: (n), y: (1).
template <class T>
__global__ void norm2_kernel(const T* x, float* y, int64_t n) {
  DUET_SHARED(double, part, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t i = thread; i < n; i += kThreads) sum += double(float(x[i])) * float(x[i]);

  // Tree over the threads' sums.
  part[thread] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) *y = static_cast<float>(sqrt(part[0]));
}

Plan norm2_naive(const Norm2& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch(norm2_kernel<T>, Grid{.blocks = 1, .threads = kThreads, .stream = stream}, t[Norm2::x].as<const T>(),
             t[Norm2::y].as<float>(), p.n);
    };
  });
}
DUET_REGISTER(norm2_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
