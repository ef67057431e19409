// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row, whichever holds the row in registers: memory is then read once. Rows that do not fit a
// block's registers are read again for each pass, from L2. The gradients are those of backward.cuh.
#include "kernels/norm/backward.cuh"
#include "ops/norm/layernorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kForwardItems = 32;  // elements of a row that a thread holds

// kThreads = 32: blocks of (32, 8), 8 rows each. kThreads = 256: blocks of (256, 1), one row each. 32 bytes of shared
// memory. cols <= kThreads * kForwardItems. Rows, gamma and beta are aligned to kSize elements. x, y: (rows, cols),
// gamma, beta: (cols), mean, rstd: (rows).
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kBlock)
    layernorm_kernel(const T* x, const T* gamma, const T* beta, T* y, float* mean, float* rstd, int64_t rows, int cols,
                     float inv_cols, float eps) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  x += row * cols;
  y += row * cols;

  // Load the row. Mean.
  float v[kForwardItems], sum = 0, squares = 0;
#pragma unroll
  for (int load = 0; load < kForwardItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack;
    if (c < cols) pack = load_pack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      v[load * kSize + i] = c < cols ? float(pack.at[i]) : 0;
      sum += v[load * kSize + i];
    }
  }
  const float m = block_reduce<SumOp, kThreads>(sum, part) * inv_cols;

  // Variance.
#pragma unroll
  for (int load = 0; load < kForwardItems / kSize; ++load) {
    const bool exists = first_column<kThreads, kSize>(load) < cols;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      float& deviation = v[load * kSize + i];
      deviation = exists ? deviation - m : 0;
      squares += deviation * deviation;
    }
  }
  const float scale = rsqrtf(block_reduce<SumOp, kThreads>(squares, part) * inv_cols + eps);

  // Normalise and write back.
#pragma unroll
  for (int load = 0; load < kForwardItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    if (c >= cols) continue;
    const auto g = load_pack<kSize>(gamma + c), b = load_pack<kSize>(beta + c);
    Pack<T, kSize> pack;
#pragma unroll
    for (int i = 0; i < kSize; ++i) pack.at[i] = T(v[load * kSize + i] * scale * float(g.at[i]) + float(b.at[i]));
    store_pack(y + c, pack);
  }
  if (threadIdx.x == 0) {
    mean[row] = m;
    rstd[row] = scale;
  }
}

// One block of kLongBlock per row, 64 bytes of shared memory. kSize > 1: x and y have the same offset from a 16-byte
// boundary.
template <class T, int kSize>
__global__ void __launch_bounds__(kLongBlock)
    layernorm_long_kernel(const T* x, const T* gamma, const T* beta, T* y, float* mean, float* rstd, int64_t cols,
                          float inv_cols, float eps) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;

  // Mean.
  float sum = 0, squares = 0;
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += float(pack.at[i]);
  });
  const float m = block_reduce<SumOp, kLongBlock>(sum, part) * inv_cols;

  // Variance.
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += (float(pack.at[i]) - m) * (float(pack.at[i]) - m);
  });
  const float scale = rsqrtf(block_reduce<SumOp, kLongBlock>(squares, part) * inv_cols + eps);

  // Normalise and write back.
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      pack.at[i] = T((float(pack.at[i]) - m) * scale * float(gamma[c + i]) + float(beta[c + i]));
    store_pack(y + c, pack);
  });
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = m;
    rstd[blockIdx.x] = scale;
  }
}

Plan layernorm_tuned(const LayerNorm& p, GpuContext& gpu) {
  using P = LayerNorm;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, of = RowShape{p.rows, p.cols, gpu.multiprocessors()}, stream = gpu.stream()](Args t) {
      const T *x = t[P::x].as<const T>(), *gamma = t[P::gamma].as<const T>(), *beta = t[P::beta].as<const T>();
      T* y = t[P::y].as<T>();
      float *mean = t[P::mean].as<float>(), *rstd = t[P::rstd].as<float>();
      const auto eps = static_cast<float>(p.eps);
      const auto run = [&]<int kThreads, int kSize>() {
        const Grid grid = grid_of<kThreads>(p.rows, stream);
        if constexpr (kThreads > 0)
          launch(layernorm_kernel<T, kThreads, kSize>, grid, x, gamma, beta, y, mean, rstd, p.rows, p.cols,
                 inv_cols_of(p.cols), eps);
        else
          launch(layernorm_long_kernel<T, kSize>, grid, x, gamma, beta, y, mean, rstd, p.cols, inv_cols_of(p.cols),
                 eps);
      };
      by_row_length<T, kForwardItems>(of, aligned16(x, gamma, beta, y), same_offset16(x, y), run);
    };
  });
}
DUET_REGISTER(layernorm_tuned);

Plan layernorm_backward_tuned(const LayerNormBackward& p, GpuContext& gpu) {
  using P = LayerNormBackward;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    using Backward = NormBackward<T, true>;
    if (!Backward::supports(p.rows)) return Unsupported{"more than 2^26 rows"};
    WorkspaceLayout workspace;
    const Backward backward(p.rows, p.cols, gpu, workspace);
    return Plan([p, backward](Args t) {
             backward.enqueue(t, {t[P::x].as<const T>(), t[P::gamma].as<const T>(), t[P::dy].as<const T>(),
                                  t[P::mean].as<const float>(), t[P::rstd].as<const float>(), t[P::dx].as<T>(),
                                  t[P::dgamma].as<T>(), t[P::dbeta].as<T>(), p.rows, p.cols, inv_cols_of(p.cols)});
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(layernorm_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
