// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row, whichever holds the row in registers (rows.cuh). Rows that do not fit are read again
// for the second pass, from L2. The gradients are those of backward.cuh.
#include "kernels/norm/backward.cuh"
#include "ops/norm/rmsnorm.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kForwardItems = 32;  // elements of a row that a thread holds

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

Plan rmsnorm_tuned(const RmsNorm& p, GpuContext& gpu) {
  using P = RmsNorm;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, of = RowShape{p.rows, p.cols, gpu.multiprocessors()}, stream = gpu.stream()](Args t) {
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
      by_row_length<T, kForwardItems>(of, aligned16(x, gamma, y), same_offset16(x, y), run);
    };
  });
}
DUET_REGISTER(rmsnorm_tuned);

Plan rmsnorm_backward_tuned(const RmsNormBackward& p, GpuContext& gpu) {
  using P = RmsNormBackward;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    using Backward = NormBackward<T, false>;
    if (!Backward::supports(p.rows)) return Unsupported{"more than 2^26 rows"};
    WorkspaceLayout workspace;
    const Backward backward(p.rows, p.cols, gpu, workspace);
    return Plan([p, backward](Args t) {
             backward.enqueue(t, {t[P::x].as<const T>(), t[P::gamma].as<const T>(), t[P::dy].as<const T>(), nullptr,
                                  t[P::rstd].as<const float>(), t[P::dx].as<T>(), t[P::dgamma].as<T>(), nullptr, p.rows,
                                  p.cols, inv_cols_of(p.cols)});
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(rmsnorm_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
