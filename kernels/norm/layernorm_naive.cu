// SPDX-License-Identifier: Apache-2.0
// One thread per row, which reads it three times; one thread per column of dgamma and dbeta. Sums are in double, so
// that rounding is small for rows and columns of any length.
#include "simt/launch.h"
#include "ops/norm/layernorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x, y: (rows, cols), gamma, beta: (cols), mean, rstd:
// (rows).
template <class T>
__global__ void layernorm_kernel(const T* x, const T* gamma, const T* beta, T* y, float* mean, float* rstd,
                                 int64_t rows, int64_t cols, double eps) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  y += row * cols;

  // Mean and variance.
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < cols; ++c) sum += float(x[c]);
  const double m = cols > 0 ? sum / cols : 0;
  for (int64_t c = 0; c < cols; ++c) squares += (float(x[c]) - m) * (float(x[c]) - m);
  const double scale = 1 / sqrt((cols > 0 ? squares / cols : 0) + eps);

  // Normalise and write back.
  for (int64_t c = 0; c < cols; ++c)
    y[c] = T(static_cast<float>((float(x[c]) - m) * scale * float(gamma[c]) + float(beta[c])));
  mean[row] = static_cast<float>(m);
  rstd[row] = static_cast<float>(scale);
}

Plan layernorm_naive(const LayerNorm& p, GpuContext& gpu) {
  using P = LayerNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(layernorm_kernel<T>, grid, t[P::x].as<const T>(), t[P::gamma].as<const T>(), t[P::beta].as<const T>(),
             t[P::y].as<T>(), t[P::mean].as<float>(), t[P::rstd].as<float>(), p.rows, p.cols, p.eps);
    };
  });
}
DUET_REGISTER(layernorm_naive);

// As layernorm_kernel. x, dy, dx: (rows, cols), gamma: (cols), mean, rstd: (rows).
template <class T>
__global__ void rows_backward_kernel(const T* x, const T* gamma, const float* mean, const float* rstd, const T* dy,
                                     T* dx, int64_t rows, int64_t cols) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  dy += row * cols;
  dx += row * cols;
  const float m = mean[row], scale = rstd[row];

  // Means of g = dy gamma and of g xhat.
  double sum = 0, dot = 0;
  for (int64_t c = 0; c < cols; ++c) {
    const float g = float(dy[c]) * float(gamma[c]);
    sum += g;
    dot += g * ((float(x[c]) - m) * scale);
  }
  const float mean_g = static_cast<float>(sum / cols), mean_dot = static_cast<float>(dot / cols);

  // Write back.
  for (int64_t c = 0; c < cols; ++c) {
    const float g = float(dy[c]) * float(gamma[c]), xhat = (float(x[c]) - m) * scale;
    dx[c] = T(scale * (g - mean_g - xhat * mean_dot));
  }
}

// ceil(cols / kThreads) blocks of kThreads, no shared memory. x, dy: (rows, cols), mean, rstd: (rows), dgamma, dbeta:
// (cols).
template <class T>
__global__ void columns_backward_kernel(const T* x, const float* mean, const float* rstd, const T* dy, T* dgamma,
                                        T* dbeta, int64_t rows, int64_t cols) {
  const int64_t c = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (c >= cols) return;
  double g = 0, b = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float d = float(dy[r * cols + c]);
    g += d * ((float(x[r * cols + c]) - mean[r]) * rstd[r]);
    b += d;
  }
  dgamma[c] = T(static_cast<float>(g));
  dbeta[c] = T(static_cast<float>(b));
}

Plan layernorm_backward_naive(const LayerNormBackward& p, GpuContext& gpu) {
  using P = LayerNormBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T *x = t[P::x].as<const T>(), *dy = t[P::dy].as<const T>();
      const float *mean = t[P::mean].as<const float>(), *rstd = t[P::rstd].as<const float>();
      const auto grid = [&](int64_t n) {
        return Grid{.blocks = ceil_div(n, kThreads), .threads = kThreads, .stream = stream};
      };
      // The columns first, since dx may be x or dy.
      launch(columns_backward_kernel<T>, grid(p.cols), x, mean, rstd, dy, t[P::dgamma].as<T>(), t[P::dbeta].as<T>(),
             p.rows, p.cols);
      launch(rows_backward_kernel<T>, grid(p.rows), x, t[P::gamma].as<const T>(), mean, rstd, dy, t[P::dx].as<T>(),
             p.rows, p.cols);
    };
  });
}
DUET_REGISTER(layernorm_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
