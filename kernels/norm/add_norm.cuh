// SPDX-License-Identifier: Apache-2.0
// The kernels of add_layernorm and add_rmsnorm: s = x + residual, then layernorm (kMean) or rmsnorm of s. One warp or
// one block per row holds the row of s in registers (rows.cuh), so that x and residual are read once and s and y are
// written once. A row that does not fit is read again for each further pass, from L2: s, by the threads that wrote it.
#pragma once
#include "kernels/norm/rows.cuh"

namespace duet::DUET_DEVICE {
namespace add_norm {

constexpr int kItems = 32;  // elements of a row that a thread holds

// x, residual, s, y: (rows, cols); gamma, beta: (cols); mean, rstd: (rows). beta and mean are unused without kMean. s
// may be x or residual: a thread reads its elements before it writes them.
template <class T>
struct Tensors {
  const T *x, *residual, *gamma, *beta;
  T *s, *y;
  float *mean, *rstd;
  __device__ __forceinline__ void to_row(int64_t row, int64_t cols) {
    x += row * cols;
    residual += row * cols;
    s += row * cols;
    y += row * cols;
  }
};

// kThreads = 32: blocks of (32, 8), 8 rows each. kThreads = 256: blocks of (256, 1), one row each. 32 bytes of shared
// memory. cols <= kThreads * kItems. Rows, gamma and beta are aligned to kSize elements.
template <class T, bool kMean, int kThreads, int kSize>
__global__ void __launch_bounds__(kBlock)
    add_norm_kernel(Tensors<T> t, int64_t rows, int cols, float inv_cols, float eps) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  t.to_row(row, cols);

  // Load both rows, write their sum. Its mean, or its mean square.
  float v[kItems], sum = 0;
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack, other;
    if (c < cols) {
      pack = load_pack<kSize>(t.x + c);
      other = load_pack<kSize>(t.residual + c);
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      float& element = v[load * kSize + i];
      pack.at[i] = T(c < cols ? float(pack.at[i]) + float(other.at[i]) : 0.0f);
      element = float(pack.at[i]);
      sum += kMean ? element : element * element;
    }
    if (c < cols) store_pack(t.s + c, pack);
  }
  sum = block_reduce<SumOp, kThreads>(sum, part) * inv_cols;

  // Variance.
  float squares = sum;
  if constexpr (kMean) {
    squares = 0;
#pragma unroll
    for (int load = 0; load < kItems / kSize; ++load) {
      const bool exists = first_column<kThreads, kSize>(load) < cols;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        float& deviation = v[load * kSize + i];
        deviation = exists ? deviation - sum : 0;
        squares += deviation * deviation;
      }
    }
    squares = block_reduce<SumOp, kThreads>(squares, part) * inv_cols;
  }
  const float scale = rsqrtf(squares + eps);

  // Normalise and write back.
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    if (c >= cols) continue;
    const auto g = load_pack<kSize>(t.gamma + c);
    Pack<T, kSize> b, pack;
    if constexpr (kMean) b = load_pack<kSize>(t.beta + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      float normalised = v[load * kSize + i] * scale * float(g.at[i]);
      if constexpr (kMean) normalised += float(b.at[i]);
      pack.at[i] = T(normalised);
    }
    store_pack(t.y + c, pack);
  }
  if (threadIdx.x == 0) {
    if constexpr (kMean) t.mean[row] = sum;
    t.rstd[row] = scale;
  }
}

// One block of kLongBlock per row, 64 bytes of shared memory. kSize > 1: x, residual, s and y have the same offset from
// a 16-byte boundary. A thread has the same columns in each pass.
template <class T, bool kMean, int kSize>
__global__ void __launch_bounds__(kLongBlock)
    add_norm_long_kernel(Tensors<T> t, int64_t cols, float inv_cols, float eps) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  t.to_row(blockIdx.x, cols);

  // The sum. Its mean, or its mean square.
  float sum = 0;
  for_row<kLongBlock, kSize>(t.x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
    const auto other = load_pack<kWidth>(t.residual + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      pack.at[i] = T(float(pack.at[i]) + float(other.at[i]));
      sum += kMean ? float(pack.at[i]) : float(pack.at[i]) * float(pack.at[i]);
    }
    store_pack(t.s + c, pack);
  });
  const T* s = t.s;
  sum = block_reduce<SumOp, kLongBlock>(sum, part) * inv_cols;

  // Variance.
  float squares = sum;
  if constexpr (kMean) {
    squares = 0;
    for_row<kLongBlock, kSize>(s, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) squares += (float(pack.at[i]) - sum) * (float(pack.at[i]) - sum);
    });
    squares = block_reduce<SumOp, kLongBlock>(squares, part) * inv_cols;
  }
  const float scale = rsqrtf(squares + eps), shift = kMean ? sum : 0;

  // Normalise and write back.
  for_row<kLongBlock, kSize>(s, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      float normalised = (float(pack.at[i]) - shift) * scale * float(t.gamma[c + i]);
      if constexpr (kMean) normalised += float(t.beta[c + i]);
      pack.at[i] = T(normalised);
    }
    store_pack(t.y + c, pack);
  });
  if (threadIdx.x == 0) {
    if constexpr (kMean) t.mean[blockIdx.x] = sum;
    t.rstd[blockIdx.x] = scale;
  }
}

// Enqueues one of them. `aligned`: whether gamma, and beta if it is used, lie on 16-byte boundaries.
template <bool kMean, class T>
void enqueue(const Tensors<T>& t, bool aligned, const RowShape& of, double eps, cudaStream_t stream) {
  const auto [rows, cols, multiprocessors] = of;
  const auto run = [&]<int kThreads, int kSize>() {
    const Grid grid = grid_of<kThreads>(rows, stream);
    if constexpr (kThreads > 0)
      launch(add_norm_kernel<T, kMean, kThreads, kSize>, grid, t, rows, cols, inv_cols_of(cols),
             static_cast<float>(eps));
    else
      launch(add_norm_long_kernel<T, kMean, kSize>, grid, t, cols, inv_cols_of(cols), static_cast<float>(eps));
  };
  by_row_length<T, kItems>(of, aligned && aligned16(t.x, t.residual, t.s, t.y),
                           same_offset16(t.x, t.residual, t.s, t.y), run);
}

}  // namespace add_norm
}  // namespace duet::DUET_DEVICE
