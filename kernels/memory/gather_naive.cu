// SPDX-License-Identifier: Apache-2.0
// One thread per element of y, in order. A thread finds its row by a division.
#include "simt/launch.h"
#include "ops/memory/gather.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(n cols / kThreads) blocks of kThreads, no shared memory. x: (rows, cols), index: (n), y: (n, cols) of `elements`
// elements.
template <class T>
__global__ void gather_kernel(const T* x, const int32_t* index, T* y, int64_t elements, int64_t rows, int64_t cols) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= elements) return;
  const int64_t row = index[i / cols];
  y[i] = row >= 0 && row < rows ? x[row * cols + i % cols] : T(0.0f);
}

Plan gather_naive(const Gather& p, GpuContext& gpu) {
  using P = Gather;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.n * p.cols, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(gather_kernel<T>, grid, t[P::x].as<const T>(), t[P::index].as<const int32_t>(), t[P::y].as<T>(),
             p.n * p.cols, p.rows, p.cols);
    };
  });
}
DUET_REGISTER(gather_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
