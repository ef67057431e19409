// SPDX-License-Identifier: Apache-2.0
// One thread per row: the formula as written, and the baseline for softmax_tuned.cu. Neighbouring threads read
// addresses `cols` elements apart, so loads do not coalesce.
#include "simt/launch.h"
#include "ops/norm/softmax.h"

namespace duet::DUET_DEVICE {  // duet::cuda under nvcc, duet::simt on the host: both link into one program
namespace {
constexpr int kThreads = 256;

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x, y: (rows, cols).
template <class T>
__global__ void softmax_kernel(const T* x, T* y, int64_t rows, int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;

  // Row maximum.
  float max = -INFINITY;
  for (int64_t c = 0; c < cols; ++c) max = fmaxf(max, float(x[c]));

  // Sum of exponentials, then the quotient.
  float sum = 0;
  for (int64_t c = 0; c < cols; ++c) sum += expf(float(x[c]) - max);
  for (int64_t c = 0; c < cols; ++c) y[c] = T(expf(float(x[c]) - max) / sum);
}

Plan softmax_naive(const Softmax& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(softmax_kernel<T>, grid, t[Softmax::x].as<const T>(), t[Softmax::y].as<T>(), p.rows, p.cols);
    };
  });
}
DUET_REGISTER(softmax_naive);  // cuda.naive under nvcc, simt.naive on the host

// As softmax_kernel. y, dy, dx: (rows, cols).
template <class T>
__global__ void softmax_backward_kernel(const T* y, const T* dy, T* dx, int64_t rows, int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  y += row * cols;
  dy += row * cols;
  dx += row * cols;

  // Dot product of y and dy, then dx.
  float dot = 0;
  for (int64_t c = 0; c < cols; ++c) dot += float(y[c]) * float(dy[c]);
  for (int64_t c = 0; c < cols; ++c) dx[c] = T(float(y[c]) * (float(dy[c]) - dot));
}

Plan softmax_backward_naive(const SoftmaxBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(softmax_backward_kernel<T>, grid, t[SoftmaxBackward::y].as<const T>(),
             t[SoftmaxBackward::dy].as<const T>(), t[SoftmaxBackward::dx].as<T>(), p.rows, p.cols);
    };
  });
}
DUET_REGISTER(softmax_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
