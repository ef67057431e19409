// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row, whichever holds the row in registers (rows.cuh). Rows that do not fit are read again
// for the second pass, from L2. dgamma is a column sum (columns.cuh).
#include "kernels/norm/rows.cuh"
#include "kernels/reduction/columns.cuh"
#include "ops/norm/rmsnorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kForwardItems = 32, kBackwardItems = 16;  // elements of a row that a thread holds, of each tensor

// kThreads = 32: blocks of (32, 8), 8 rows each. kThreads = 256: blocks of (256, 1), one row each. 32 bytes of shared
// memory. cols <= kThreads * kForwardItems. Rows and gamma are aligned to kSize elements. x, y: (rows, cols), gamma:
// (cols), rstd: (rows).
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kBlock)
    rmsnorm_kernel(const T* x, const T* gamma, T* y, float* rstd, int64_t rows, int cols, float inv_cols, float eps) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  x += row * cols;
  y += row * cols;

  // Load the row. Mean square.
  float v[kForwardItems], squares = 0;
#pragma unroll
  for (int load = 0; load < kForwardItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack;
    if (c < cols) pack = load_pack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      float& element = v[load * kSize + i];
      element = c < cols ? float(pack.at[i]) : 0;
      squares += element * element;
    }
  }
  const float scale = rsqrtf(block_reduce<SumOp, kThreads>(squares, part) * inv_cols + eps);

  // Scale and write back.
#pragma unroll
  for (int load = 0; load < kForwardItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    if (c >= cols) continue;
    const auto g = load_pack<kSize>(gamma + c);
    Pack<T, kSize> pack;
#pragma unroll
    for (int i = 0; i < kSize; ++i) pack.at[i] = T(v[load * kSize + i] * scale * float(g.at[i]));
    store_pack(y + c, pack);
  }
  if (threadIdx.x == 0) rstd[row] = scale;
}

// One block of kLongBlock per row, 64 bytes of shared memory. kSize > 1: x and y have the same offset from a 16-byte
// boundary.
template <class T, int kSize>
__global__ void __launch_bounds__(kLongBlock)
    rmsnorm_long_kernel(const T* x, const T* gamma, T* y, float* rstd, int64_t cols, float inv_cols, float eps) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;

  // Mean square.
  float squares = 0;
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += float(pack.at[i]) * float(pack.at[i]);
  });
  const float scale = rsqrtf(block_reduce<SumOp, kLongBlock>(squares, part) * inv_cols + eps);

  // Scale and write back.
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.at[i] = T(float(pack.at[i]) * scale * float(gamma[c + i]));
    store_pack(y + c, pack);
  });
  if (threadIdx.x == 0) rstd[blockIdx.x] = scale;
}

// As rmsnorm_kernel, with cols <= kThreads * kBackwardItems. x, dy, dx: (rows, cols), gamma: (cols), rstd: (rows).
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kBlock)
    rows_backward_kernel(const T* x, const T* gamma, const float* rstd, const T* dy, T* dx, int64_t rows, int cols,
                         float inv_cols) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  x += row * cols;
  dy += row * cols;
  dx += row * cols;
  const float scale = rstd[row];

  // Load the row. Mean of g xhat, where g = dy gamma.
  float xhat[kBackwardItems], g[kBackwardItems], dot = 0;
#pragma unroll
  for (int load = 0; load < kBackwardItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack_x, pack_dy, pack_gamma;
    if (c < cols) {
      pack_x = load_pack<kSize>(x + c);
      pack_dy = load_pack<kSize>(dy + c);
      pack_gamma = load_pack<kSize>(gamma + c);
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const int item = load * kSize + i;
      xhat[item] = c < cols ? float(pack_x.at[i]) * scale : 0;
      g[item] = c < cols ? float(pack_dy.at[i]) * float(pack_gamma.at[i]) : 0;
      dot += g[item] * xhat[item];
    }
  }
  dot = block_reduce<SumOp, kThreads>(dot, part) * inv_cols;

  // Write back.
  store_row<kThreads, kSize, kBackwardItems>(dx, cols, [&](int i) { return scale * (g[i] - xhat[i] * dot); });
}

// As rmsnorm_long_kernel, for x, dy and dx.
template <class T, int kSize>
__global__ void __launch_bounds__(kLongBlock)
    rows_backward_long_kernel(const T* x, const T* gamma, const float* rstd, const T* dy, T* dx, int64_t cols,
                              float inv_cols) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  const float scale = rstd[blockIdx.x];
  x += blockIdx.x * cols;
  dy += blockIdx.x * cols;
  dx += blockIdx.x * cols;

  // Mean of g xhat.
  float dot = 0;
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) dot += float(other.at[i]) * float(gamma[c + i]) * (float(pack.at[i]) * scale);
  });
  dot = block_reduce<SumOp, kLongBlock>(dot, part) * inv_cols;

  // Write back.
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      pack.at[i] = T(scale * (float(other.at[i]) * float(gamma[c + i]) - float(pack.at[i]) * scale * dot));
    store_pack(dx + c, pack);
  });
}

Plan rmsnorm_tuned(const RmsNorm& p, GpuContext& gpu) {
  using P = RmsNorm;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T *x = t[P::x].as<const T>(), *gamma = t[P::gamma].as<const T>();
      T* y = t[P::y].as<T>();
      float* rstd = t[P::rstd].as<float>();
      const auto eps = static_cast<float>(p.eps);
      const auto run = [&]<int kThreads, int kSize>() {
        const Grid grid = grid_of<kThreads>(p.rows, stream);
        if constexpr (kThreads > 0)
          launch(rmsnorm_kernel<T, kThreads, kSize>, grid, x, gamma, y, rstd, p.rows, p.cols, inv_cols_of(p.cols), eps);
        else
          launch(rmsnorm_long_kernel<T, kSize>, grid, x, gamma, y, rstd, p.cols, inv_cols_of(p.cols), eps);
      };
      by_row_length<T, kForwardItems>(p.cols, aligned16(x, gamma, y), same_offset16(x, y), run);
    };
  });
}
DUET_REGISTER(rmsnorm_tuned);

// The terms of dgamma, as a Load of columns.cuh.
template <class T>
struct LoadGradient {
  static constexpr int kSums = 1;
  using Element = T;
  const T *x, *dy;
  const float* rstd;
  int64_t cols;
  template <int kSize>
  __device__ __forceinline__ void operator()(int64_t row, int64_t c, float (&terms)[1][kSize]) const {
    const auto pack_x = load_pack<kSize>(x + row * cols + c), pack_dy = load_pack<kSize>(dy + row * cols + c);
    const float scale = rstd[row];
#pragma unroll
    for (int e = 0; e < kSize; ++e) terms[0][e] = float(pack_dy.at[e]) * (float(pack_x.at[e]) * scale);
  }
  bool aligned() const { return aligned16(x, dy); }
};
template <class T>
struct StoreGradient {
  T* dgamma;
  __device__ __forceinline__ void operator()(int64_t, int64_t c, const float (&sums)[1]) const {
    dgamma[c] = T(sums[0]);
  }
};

Plan rmsnorm_backward_tuned(const RmsNormBackward& p, GpuContext& gpu) {
  using P = RmsNormBackward;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  if (!ColumnSums<float>::supports(p.rows)) return Unsupported{"more than 2^26 rows"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const ColumnSums<T> sums(p.rows, p.cols, gpu, workspace);
    return Plan([p, sums, stream = gpu.stream()](Args t) {
             const T *x = t[P::x].as<const T>(), *gamma = t[P::gamma].as<const T>(), *dy = t[P::dy].as<const T>();
             const float* rstd = t[P::rstd].as<const float>();
             T* dx = t[P::dx].as<T>();
             // The columns first, since dx may be x or dy.
             sums.enqueue(t, LoadGradient<T>{x, dy, rstd, p.cols}, StoreGradient<T>{t[P::dgamma].as<T>()});
             const auto run = [&]<int kThreads, int kSize>() {
               const Grid grid = grid_of<kThreads>(p.rows, stream);
               if constexpr (kThreads > 0)
                 launch(rows_backward_kernel<T, kThreads, kSize>, grid, x, gamma, rstd, dy, dx, p.rows, p.cols,
                        inv_cols_of(p.cols));
               else
                 launch(rows_backward_long_kernel<T, kSize>, grid, x, gamma, rstd, dy, dx, p.cols, inv_cols_of(p.cols));
             };
             by_row_length<T, kBackwardItems>(p.cols, aligned16(x, gamma, dy, dx), same_offset16(x, dy, dx), run);
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(rmsnorm_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
