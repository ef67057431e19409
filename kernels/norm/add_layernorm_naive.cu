// SPDX-License-Identifier: Apache-2.0
// One thread per row, which writes the sum and reads it three times. Sums are in double, so that rounding is small for
// rows of any length.
#include "simt/launch.h"
#include "ops/norm/add_layernorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x, residual, s, y: (rows, cols), gamma, beta: (cols),
// mean, rstd: (rows).
template <class T>
__global__ void add_layernorm_kernel(const T* x, const T* residual, const T* gamma, const T* beta, T* s, T* y,
                                     float* mean, float* rstd, int64_t rows, int64_t cols, double eps) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  residual += row * cols;
  s += row * cols;
  y += row * cols;

  // The sum, its mean and variance.
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < cols; ++c) {
    s[c] = T(float(x[c]) + float(residual[c]));
    sum += float(s[c]);
  }
  const double m = cols > 0 ? sum / cols : 0;
  for (int64_t c = 0; c < cols; ++c) squares += (float(s[c]) - m) * (float(s[c]) - m);
  const double scale = 1 / sqrt((cols > 0 ? squares / cols : 0) + eps);

  // Normalise and write back.
  for (int64_t c = 0; c < cols; ++c)
    y[c] = T(static_cast<float>((float(s[c]) - m) * scale * float(gamma[c]) + float(beta[c])));
  mean[row] = static_cast<float>(m);
  rstd[row] = static_cast<float>(scale);
}

Plan add_layernorm_naive(const AddLayerNorm& p, GpuContext& gpu) {
  using P = AddLayerNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(add_layernorm_kernel<T>, grid, t[P::x].as<const T>(), t[P::residual].as<const T>(),
             t[P::gamma].as<const T>(), t[P::beta].as<const T>(), t[P::s].as<T>(), t[P::y].as<T>(),
             t[P::mean].as<float>(), t[P::rstd].as<float>(), p.rows, p.cols, p.eps);
    };
  });
}
DUET_REGISTER(add_layernorm_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
