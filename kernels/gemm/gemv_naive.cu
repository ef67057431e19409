// SPDX-License-Identifier: Apache-2.0
// One thread per element of y: the formula as written. With trans, the lanes of a warp read neighbours in a row of a;
// without, their reads are n elements apart and do not coalesce.
#include "simt/launch.h"
#include "ops/gemm/gemv.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(m / kThreads) blocks of kThreads, no shared memory. a is addressed by the strides of i and j.
template <class T>
__global__ void gemv_kernel(const T* a, const T* x, T* y, int64_t m, int64_t n, int64_t i_step, int64_t j_step) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= m) return;
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += float(a[i * i_step + j * j_step]) * float(x[j]);
  y[i] = T(sum);
}

Plan gemv_naive(const Gemv& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.m, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(gemv_kernel<T>, grid, t[Gemv::a].as<const T>(), t[Gemv::x].as<const T>(), t[Gemv::y].as<T>(), p.m, p.n,
             p.trans ? 1 : p.n, p.trans ? p.m : 1);
    };
  });
}
DUET_REGISTER(gemv_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
