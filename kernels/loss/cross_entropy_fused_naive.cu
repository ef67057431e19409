// SPDX-License-Identifier: Apache-2.0
// One thread per row: the formulas as written, in three passes over the row; then one thread adds the losses of the
// rows. Sums are in double, so that rounding is small for rows of any length.
#include "simt/launch.h"
#include "ops/loss/cross_entropy_fused.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 256;

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x, dx: (rows, cols), label, row_loss: (rows); scale:
// null, or (1). dx may be x.
template <class T>
__global__ void rows_kernel(const T* x, const int32_t* label, const float* scale, float* row_loss, T* dx, int64_t rows,
                            int64_t cols, float smooth) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  dx += row * cols;

  // Row maximum.
  float max = -INFINITY;
  for (int64_t c = 0; c < cols; ++c) max = fmaxf(max, float(x[c]));

  // Sum of exponentials, and of x for label smoothing.
  double sum = 0, all = 0;
  for (int64_t c = 0; c < cols; ++c) {
    sum += expf(float(x[c]) - max);
    all += float(x[c]);
  }

  // Loss of the row, before dx overwrites x.
  const float lse = max + logf(static_cast<float>(sum));
  const float target = label[row] >= 0 && label[row] < cols ? float(x[label[row]]) : 0;
  const float spread = smooth != 0 ? smooth / cols * static_cast<float>(all) : 0;  // a masked score of -inf stays out
  row_loss[row] = lse - (1 - smooth) * target - spread;

  // Gradient.
  for (int64_t c = 0; c < cols; ++c) {
    const float q = (c == label[row] ? 1 - smooth : 0) + smooth / cols;
    dx[c] = T((expf(float(x[c]) - lse) - q) * ((scale ? *scale : 1) / rows));
  }
}

// One thread. row_loss: (rows), loss: (1), which is 0 where there are no rows.
__global__ void mean_kernel(const float* row_loss, float* loss, int64_t rows) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += row_loss[r];
  *loss = rows > 0 ? static_cast<float>(sum / rows) : 0;
}

Plan cross_entropy_fused_naive(const CrossEntropyFused& p, GpuContext& gpu) {
  using P = CrossEntropyFused;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    WorkspaceLayout workspace;
    const auto losses = workspace.add<float>(p.rows);
    return Plan([p, grid, losses](Args t) {
             float* const row_loss = t.workspace(losses);
             launch(rows_kernel<T>, grid, t[P::x].as<const T>(), t[P::label].as<const int32_t>(),
                    p.scaled ? t[P::scale].as<const float>() : nullptr, row_loss, t[P::dx].as<T>(), p.rows, p.cols,
                    static_cast<float>(p.smooth));
             launch(mean_kernel, Grid{.stream = grid.stream}, row_loss, t[P::loss].as<float>(), p.rows);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(cross_entropy_fused_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
