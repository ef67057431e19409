// SPDX-License-Identifier: Apache-2.0
// One thread per row, which writes the sum and reads it twice. Sums are in double, so that rounding is small for rows
// of any length.
#include "simt/launch.h"
#include "ops/norm/add_rmsnorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x, residual, s, y: (rows, cols), gamma: (cols), rstd:
// (rows).
template <class T>
__global__ void add_rmsnorm_kernel(const T* x, const T* residual, const T* gamma, T* s, T* y, float* rstd, int64_t rows,
                                   int64_t cols, double eps) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  residual += row * cols;
  s += row * cols;
  y += row * cols;

  // The sum and its mean square.
  double squares = 0;
  for (int64_t c = 0; c < cols; ++c) {
    s[c] = T(float(x[c]) + float(residual[c]));
    squares += double(float(s[c])) * float(s[c]);
  }
  const double scale = 1 / sqrt((cols > 0 ? squares / cols : 0) + eps);

  // Scale and write back.
  for (int64_t c = 0; c < cols; ++c) y[c] = T(static_cast<float>(float(s[c]) * scale * float(gamma[c])));
  rstd[row] = static_cast<float>(scale);
}

Plan add_rmsnorm_naive(const AddRmsNorm& p, GpuContext& gpu) {
  using P = AddRmsNorm;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(add_rmsnorm_kernel<T>, grid, t[P::x].as<const T>(), t[P::residual].as<const T>(),
             t[P::gamma].as<const T>(), t[P::s].as<T>(), t[P::y].as<T>(), t[P::rstd].as<float>(), p.rows, p.cols,
             p.eps);
    };
  });
}
DUET_REGISTER(add_rmsnorm_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
