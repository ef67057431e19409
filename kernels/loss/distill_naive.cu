// SPDX-License-Identifier: Apache-2.0
// One thread per row: the formula as written; then one thread adds the losses of the rows. Sums are in double, so that
// rounding is small for rows of any length.
#include "core/plan.h"
#include "simt/launch.h"
#include "ops/loss/distill.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kThreads = 128;

// log sum_c exp(x[c] inv) of a row.
template <class T>
__device__ float log_sum_exp(const T* x, int64_t cols, float inv) {
  float max = -INFINITY;
  for (int64_t c = 0; c < cols; ++c) max = fmaxf(max, float(x[c]) * inv);
  double sum = 0;
  for (int64_t c = 0; c < cols; ++c) sum += expf(float(x[c]) * inv - max);
  return max + logf(static_cast<float>(sum));
}

// ceil(rows / kThreads) blocks of kThreads, no shared memory. x, teacher: (rows, cols), label, row_loss: (rows).
template <class T>
__global__ void rows_kernel(const T* x, const T* teacher, const int32_t* label, float* row_loss, int64_t rows,
                            int64_t cols, float temperature, float alpha) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  teacher += row * cols;
  const float inv = 1 / temperature, hard = log_sum_exp(x, cols, 1), soft = log_sum_exp(x, cols, inv);
  const float target = log_sum_exp(teacher, cols, inv);

  // Divergence and cross-entropy.
  double apart = 0;
  for (int64_t c = 0; c < cols; ++c)
    apart += expf(float(teacher[c]) * inv - target) * ((float(teacher[c]) - float(x[c])) * inv);
  const float divergence = static_cast<float>(apart) - target + soft;
  const float score = label[row] >= 0 && label[row] < cols ? float(x[label[row]]) : 0;
  row_loss[row] = alpha * temperature * temperature * divergence + (1 - alpha) * (hard - score);
}

// One thread. row_loss: (rows), loss: (1), which is 0 where there are no rows.
__global__ void mean_kernel(const float* row_loss, float* loss, int64_t rows) {
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += row_loss[r];
  *loss = rows > 0 ? static_cast<float>(sum / rows) : 0;
}

Plan distill_naive(const Distill& p, GpuContext& gpu) {
  using P = Distill;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    WorkspaceLayout workspace;
    const auto losses = workspace.add<float>(p.rows);
    return Plan([p, grid, losses](Args t) {
             float* const row_loss = t.workspace(losses);
             launch(rows_kernel<T>, grid, t[P::x].as<const T>(), t[P::teacher].as<const T>(),
                    t[P::label].as<const int32_t>(), row_loss, p.rows, p.cols, static_cast<float>(p.T),
                    static_cast<float>(p.alpha));
             launch(mean_kernel, Grid{.blocks = 1, .threads = 1, .stream = grid.stream}, row_loss,
                    t[P::loss].as<float>(), p.rows);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(distill_naive);

// As rows_kernel. dx: (rows, cols), may be x or teacher; loss_scale: null, or (1).
template <class T>
__global__ void backward_kernel(const T* x, const T* teacher, const int32_t* label, const float* loss_scale, T* dx,
                                int64_t rows, int64_t cols, float temperature, float alpha) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * cols;
  teacher += row * cols;
  dx += row * cols;
  const float inv = 1 / temperature, hard = log_sum_exp(x, cols, 1), soft = log_sum_exp(x, cols, inv);
  const float target = log_sum_exp(teacher, cols, inv), scale = (loss_scale ? *loss_scale : 1) / rows;
  const int64_t labelled = label[row];

  for (int64_t c = 0; c < cols; ++c) {
    const float v = float(x[c]), q = expf(v * inv - soft), p = expf(float(teacher[c]) * inv - target);
    const float s = expf(v - hard) - (c == labelled ? 1 : 0);
    dx[c] = T((alpha * temperature * (q - p) + (1 - alpha) * s) * scale);
  }
}

Plan distill_backward_naive(const DistillBackward& p, GpuContext& gpu) {
  using P = DistillBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Grid grid{.blocks = ceil_div(p.rows, kThreads), .threads = kThreads, .stream = gpu.stream()};
    return [p, grid](Args t) {
      launch(backward_kernel<T>, grid, t[P::x].as<const T>(), t[P::teacher].as<const T>(),
             t[P::label].as<const int32_t>(), p.scaled ? t[P::scale].as<const float>() : nullptr, t[P::dx].as<T>(),
             p.rows, p.cols, static_cast<float>(p.T), static_cast<float>(p.alpha));
    };
  });
}
DUET_REGISTER(distill_backward_naive);
}  // namespace
}  // namespace duet::DUET_DEVICE
