// SPDX-License-Identifier: Apache-2.0
// One thread per row, which reads it twice. Sums are in double, so that rounding is small for rows of any length.
#include "simt/launch.h"
#include "ops/norm/l2_normalise.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// Both kernels: ceil(rows / kThreads) blocks of kThreads, no shared memory. x, y, dy, dx: (rows, cols), scale: (rows).
template <class T>
__global__ void l2_normalise_kernel(const T* x, T* y, float* scale, int64_t rows, int64_t cols, double eps) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;

  // Norm.
  double squares = 0;
  for (int64_t c = 0; c < cols; ++c) squares += double(float(x[c])) * float(x[c]);
  const double norm = sqrt(squares);
  const float factor = static_cast<float>(1 / (norm < eps ? eps : norm));

  // Scale and write back.
  for (int64_t c = 0; c < cols; ++c) y[c] = T(float(x[c]) * factor);
  scale[row] = factor;
}

Plan l2_normalise_naive(const L2Normalise& p, GpuContext& gpu) {
  using P = L2Normalise;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(l2_normalise_kernel<T>, grid, t[P::x].as<const T>(), t[P::y].as<T>(), t[P::scale].as<float>(), p.rows,
             p.cols, p.eps);
    };
  });
}
DUET_REGISTER(l2_normalise_naive);

// dx may be y or dy.
template <class T>
__global__ void l2_normalise_backward_kernel(const T* y, const float* scale, const T* dy, T* dx, int64_t rows,
                                             int64_t cols, float max_scale) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  y += row * cols;
  dy += row * cols;
  dx += row * cols;
  const float factor = scale[row];

  // Sum of y dy, unless the row is shorter than eps.
  double dot = 0;
  if (!(factor > max_scale))
    for (int64_t c = 0; c < cols; ++c) dot += double(float(y[c])) * float(dy[c]);
  const float sum = static_cast<float>(dot);

  // Write back.
  for (int64_t c = 0; c < cols; ++c) dx[c] = T(factor * (float(dy[c]) - float(y[c]) * sum));
}

Plan l2_normalise_backward_naive(const L2NormaliseBackward& p, GpuContext& gpu) {
  using P = L2NormaliseBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(l2_normalise_backward_kernel<T>, grid, t[P::y].as<const T>(), t[P::scale].as<const float>(),
             t[P::dy].as<const T>(), t[P::dx].as<T>(), p.rows, p.cols,
             static_cast<float>(L2Normalise::max_scale(p.eps)));
    };
  });
}
DUET_REGISTER(l2_normalise_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
