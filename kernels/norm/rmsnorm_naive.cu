// SPDX-License-Identifier: Apache-2.0
// One thread per row, which reads it twice; one thread per column of dgamma. Sums are in double, so that rounding is
// small for rows and columns of any length.
#include "simt/launch.h"
#include "ops/norm/rmsnorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x, y: (rows, cols), gamma: (cols), rstd: (rows).
template <class T>
__global__ void rmsnorm_kernel(const T* x, const T* gamma, T* y, float* rstd, int64_t rows, int64_t cols, double eps) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;

  // Mean square.
  double squares = 0;
  for (int64_t c = 0; c < cols; ++c) squares += double(float(x[c])) * float(x[c]);
  const double scale = 1 / sqrt((cols > 0 ? squares / cols : 0) + eps);

  // Scale and write back.
  for (int64_t c = 0; c < cols; ++c) y[c] = T(static_cast<float>(float(x[c]) * scale * float(gamma[c])));
  rstd[row] = static_cast<float>(scale);
}

Plan rmsnorm_naive(const RmsNorm& p, GpuContext& gpu) {
  using P = RmsNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(rmsnorm_kernel<T>, grid, t[P::x].as<const T>(), t[P::gamma].as<const T>(), t[P::y].as<T>(),
             t[P::rstd].as<float>(), p.rows, p.cols, p.eps);
    };
  });
}
DUET_REGISTER(rmsnorm_naive);

// As rmsnorm_kernel. x, dy, dx: (rows, cols), gamma: (cols), rstd: (rows).
template <class T>
__global__ void rows_backward_kernel(const T* x, const T* gamma, const float* rstd, const T* dy, T* dx, int64_t rows,
                                     int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  dy += row * cols;
  dx += row * cols;
  const float scale = rstd[row];

  // Mean of g xhat, where g = dy gamma.
  double dot = 0;
  for (int64_t c = 0; c < cols; ++c) dot += float(dy[c]) * float(gamma[c]) * (float(x[c]) * scale);
  const float mean = static_cast<float>(dot / cols);

  // Write back.
  for (int64_t c = 0; c < cols; ++c) dx[c] = T(scale * (float(dy[c]) * float(gamma[c]) - float(x[c]) * scale * mean));
}

// ceil(cols / kThreads) blocks of kThreads, no shared memory. x, dy: (rows, cols), rstd: (rows), dgamma: (cols).
template <class T>
__global__ void columns_backward_kernel(const T* x, const float* rstd, const T* dy, T* dgamma, int64_t rows,
                                        int64_t cols) {
  const int64_t c = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c >= cols) return;
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += float(dy[r * cols + c]) * (float(x[r * cols + c]) * rstd[r]);
  dgamma[c] = T(static_cast<float>(sum));
}

Plan rmsnorm_backward_naive(const RmsNormBackward& p, GpuContext& gpu) {
  using P = RmsNormBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
      const float* rstd = t[P::rstd].as<const float>();
      const auto grid = [&](int64_t n) {
        return Grid{.blocks = ceil_div(n, kThreads), .threads = kThreads, .stream = stream};
      };
      // The columns first, since dx may be x or dy.
      launch(columns_backward_kernel<T>, grid(p.cols), x, rstd, dy, t[P::dgamma].as<T>(), p.rows, p.cols);
      launch(rows_backward_kernel<T>, grid(p.rows), x, t[P::gamma].as<const T>(), rstd, dy, t[P::dx].as<T>(), p.rows,
             p.cols);
    };
  });
}
DUET_REGISTER(rmsnorm_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
