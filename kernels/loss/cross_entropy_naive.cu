// SPDX-License-Identifier: Apache-2.0
// One thread per row: the formula as written; then one thread adds the losses of the rows. Sums are in double, so that
// rounding is small for rows of any length.
#include "simt/launch.h"
#include "ops/loss/cross_entropy.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x: (rows, cols), label, lse, row_loss: (rows).
template <class T>
__global__ void rows_kernel(const T* x, const int32_t* label, float* lse, float* row_loss, int64_t rows, int64_t cols,
                            float smooth) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;

  // Row maximum.
  float max = -INFINITY;
  for (int64_t c = 0; c < cols; ++c) max = fmaxf(max, float(x[c]));

  // Sum of exponentials, and of x for label smoothing.
  double sum = 0, all = 0;
  for (int64_t c = 0; c < cols; ++c) {
    sum += expf(float(x[c]) - max);
    all += float(x[c]);
  }

  // Write back.
  lse[row] = max + logf(static_cast<float>(sum));
  const float target = label[row] >= 0 && label[row] < cols ? float(x[label[row]]) : 0;
  const float spread = smooth != 0 ? smooth / cols * static_cast<float>(all) : 0;  // a masked score of -inf stays out
  row_loss[row] = lse[row] - (1 - smooth) * target - spread;
}

// One thread. row_loss: (rows), loss: (1), which is 0 where there are no rows.
__global__ void mean_kernel(const float* row_loss, float* loss, int64_t rows) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += row_loss[r];
  *loss = rows > 0 ? static_cast<float>(sum / rows) : 0;
}

Plan cross_entropy_naive(const CrossEntropy& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    WorkspaceLayout workspace;
    const auto losses = workspace.add<float>(p.rows);
    return Plan([p, grid, losses](Args t) {
             float* const row_loss = t.workspace(losses);
             launch(rows_kernel<T>, grid, t[CrossEntropy::x].as<const T>(), t[CrossEntropy::label].as<const int32_t>(),
                    t[CrossEntropy::lse].as<float>(), row_loss, p.rows, p.cols, static_cast<float>(p.smooth));
             launch(mean_kernel, Grid{.stream = grid.stream}, row_loss, t[CrossEntropy::loss].as<float>(), p.rows);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(cross_entropy_naive);

// One thread per element: ceil(rows * cols / kThreads) blocks of kThreads, no shared memory. x, dx: (rows, cols),
// label, lse: (rows); scale: null, or (1).
template <class T>
__global__ void backward_kernel(const T* x, const int32_t* label, const float* lse, const float* scale, T* dx,
                                int64_t rows, int64_t cols, float smooth) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= rows * cols) return;
  const int64_t row = i / cols;
  const float q = (i % cols == label[row] ? 1 - smooth : 0) + smooth / cols;
  dx[i] = T((expf(float(x[i]) - lse[row]) - q) * ((scale ? *scale : 1) / rows));
}

Plan cross_entropy_backward_naive(const CrossEntropyBackward& p, GpuContext& gpu) {
  using P = CrossEntropyBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows * p.cols, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(backward_kernel<T>, grid, t[P::x].as<const T>(), t[P::label].as<const int32_t>(),
             t[P::lse].as<const float>(), p.scaled ? t[P::scale].as<const float>() : nullptr, t[P::dx].as<T>(), p.rows,
             p.cols, static_cast<float>(p.smooth));
    };
  });
}
DUET_REGISTER(cross_entropy_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
