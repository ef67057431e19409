// SPDX-License-Identifier: Apache-2.0
// One block per sum. Each thread adds every kThreads-th term, and a tree adds the threads' sums. Sums are in double, so
// that rounding is small for any number of terms. Along axis 0 neighbouring threads read addresses `cols` elements
// apart.
#include "simt/launch.h"
#include "ops/reduction/sum.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// One block of kThreads per sum, kThreads doubles of shared memory. Sum i: x[i * step + j * stride], j < length. y:
// (sums).
template <class T>
__global__ void sum_kernel(const T* x, T* y, int64_t length, int64_t step, int64_t stride) {
  DUET_SHARED(double, part, [kThreads]);
  const int thread = static_cast<int>(threadIdx.x);
  x += blockIdx.x * step;
  double sum = 0;
  for (int64_t j = thread; j < length; j += kThreads) sum += float(x[j * stride]);

  // Tree over the threads' sums.
  part[thread] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) part[thread] += part[thread + half];
  }
  if (thread == 0) y[blockIdx.x] = T(static_cast<float>(part[0]));
}

Plan sum_naive(const Sum& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const bool rows = p.axis == 1;
    const Grid grid{.blocks = rows ? p.rows : p.cols, .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, rows](Args t) {
      launch(sum_kernel<T>, grid, t[Sum::x].as<const T>(), t[Sum::y].as<T>(), p.length(), rows ? p.cols : 1,
             rows ? 1 : p.cols);
    };
  });
}
DUET_REGISTER(sum_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
