// SPDX-License-Identifier: Apache-2.0
// One thread per element of x: reads coalesce; writes are `rows` elements apart, so they do not.
#include "simt/launch.h"
#include "ops/memory/transpose.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(elements / kThreads) blocks of kThreads, no shared memory. x: (batch, rows, cols), y: (batch, cols, rows).
template <class T>
__global__ void transpose_kernel(const T* x, T* y, int64_t elements, int64_t rows, int64_t cols) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t c = i % cols, r = i / cols % rows, b = i / cols / rows;
  y[(b * cols + c) * rows + r] = x[i];
}

Plan transpose_naive(const Transpose& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t elements = p.batch * p.rows * p.cols;
    const Grid grid{.blocks = ceil_div(elements, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid, elements](Args t) {
      launch(transpose_kernel<T>, grid, t[Transpose::x].as<const T>(), t[Transpose::y].as<T>(), elements, p.rows,
             p.cols);
    };
  });
}
DUET_REGISTER(transpose_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
