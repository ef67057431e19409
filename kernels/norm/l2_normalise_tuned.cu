// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row, whichever holds the row in registers (rows.cuh). Rows that do not fit are read again
// for the second pass, from L2.
#include "kernels/norm/rows.cuh"
#include "ops/norm/l2_normalise.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kForwardItems = 32, kBackwardItems = 16;  // elements of a row that a thread holds, of each tensor

__device__ __forceinline__ float factor_of(float squares, float eps) {
  const float norm = sqrtf(squares);
  return 1 / (norm < eps ? eps : norm);  // NaN stays NaN
}

// kThreads = 32: blocks of (32, 8), 8 rows each. kThreads = 256: blocks of (256, 1), one row each. 32 bytes of shared
// memory. cols <= kThreads * kForwardItems. Rows are aligned to kSize elements. x, y: (rows, cols), scale: (rows).
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kBlock)
    l2_normalise_kernel(const T* x, T* y, float* scale, int64_t rows, int cols, float eps) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  x += row * cols;
  y += row * cols;

  // Load the row. Sum of squares.
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
  const float factor = factor_of(block_reduce<SumOp, kThreads>(squares, part), eps);

  // Scale and write back.
  store_row<kThreads, kSize, kForwardItems>(y, cols, [&](int i) { return v[i] * factor; });
  if (threadIdx.x == 0) scale[row] = factor;
}

// One block of kLongBlock per row, 64 bytes of shared memory. kSize > 1: x and y have the same offset from a 16-byte
// boundary.
template <class T, int kSize>
__global__ void __launch_bounds__(kLongBlock)
    l2_normalise_long_kernel(const T* x, T* y, float* scale, int64_t cols, float eps) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;

  // Sum of squares.
  float squares = 0;
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += float(pack.at[i]) * float(pack.at[i]);
  });
  const float factor = factor_of(block_reduce<SumOp, kLongBlock>(squares, part), eps);

  // Scale and write back.
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.at[i] = T(float(pack.at[i]) * factor);
    store_pack(y + c, pack);
  });
  if (threadIdx.x == 0) scale[blockIdx.x] = factor;
}

// As l2_normalise_kernel, with cols <= kThreads * kBackwardItems. y, dy, dx: (rows, cols), scale: (rows). Where scale
// is above max_scale, the row was shorter than eps.
template <class T, int kThreads, int kSize>
__global__ void __launch_bounds__(kBlock)
    l2_backward_kernel(const T* y, const float* scale, const T* dy, T* dx, int64_t rows, int cols, float max_scale) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  y += row * cols;
  dy += row * cols;
  dx += row * cols;
  const float factor = scale[row];

  // Load the row. Sum of y dy.
  float v[kBackwardItems], g[kBackwardItems], dot = 0;
#pragma unroll
  for (int load = 0; load < kBackwardItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack_y, pack_dy;
    if (c < cols) {
      pack_y = load_pack<kSize>(y + c);
      pack_dy = load_pack<kSize>(dy + c);
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const int item = load * kSize + i;
      v[item] = c < cols ? float(pack_y.at[i]) : 0;
      g[item] = c < cols ? float(pack_dy.at[i]) : 0;
      dot += v[item] * g[item];
    }
  }
  dot = block_reduce<SumOp, kThreads>(dot, part);
  dot = factor > max_scale ? 0 : dot;

  // Write back.
  store_row<kThreads, kSize, kBackwardItems>(dx, cols, [&](int i) { return factor * (g[i] - v[i] * dot); });
}

// As l2_normalise_long_kernel, for y, dy and dx.
template <class T, int kSize>
__global__ void __launch_bounds__(kLongBlock)
    l2_backward_long_kernel(const T* y, const float* scale, const T* dy, T* dx, int64_t cols, float max_scale) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  const float factor = scale[blockIdx.x];
  y += blockIdx.x * cols;
  dy += blockIdx.x * cols;
  dx += blockIdx.x * cols;

  // Sum of y dy.
  float dot = 0;
  for_row<kLongBlock, kSize>(y, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) dot += float(pack.at[i]) * float(other.at[i]);
  });
  dot = block_reduce<SumOp, kLongBlock>(dot, part);
  if (factor > max_scale) dot = 0;

  // Write back.
  for_row<kLongBlock, kSize>(y, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.at[i] = T(factor * (float(other.at[i]) - float(pack.at[i]) * dot));
    store_pack(dx + c, pack);
  });
}

Plan l2_normalise_tuned(const L2Normalise& p, GpuContext& gpu) {
  using P = L2Normalise;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, of = RowShape{p.rows, p.cols, gpu.multiprocessors()}, stream = gpu.stream()](Args t) {
      const T* x = t[P::x].as<const T>();
      T* y = t[P::y].as<T>();
      float* scale = t[P::scale].as<float>();
      const auto eps = static_cast<float>(p.eps);
      const auto run = [&]<int kThreads, int kSize>() {
        const Grid grid = grid_of<kThreads>(p.rows, stream);
        if constexpr (kThreads > 0)
          launch(l2_normalise_kernel<T, kThreads, kSize>, grid, x, y, scale, p.rows, p.cols, eps);
        else
          launch(l2_normalise_long_kernel<T, kSize>, grid, x, y, scale, p.cols, eps);
      };
      by_row_length<T, kForwardItems>(of, aligned16(x, y), same_offset16(x, y), run);
    };
  });
}
DUET_REGISTER(l2_normalise_tuned);

Plan l2_normalise_backward_tuned(const L2NormaliseBackward& p, GpuContext& gpu) {
  using P = L2NormaliseBackward;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, max_scale = static_cast<float>(L2Normalise::max_scale(p.eps)),
            of = RowShape{p.rows, p.cols, gpu.multiprocessors()}, stream = gpu.stream()](Args t) {
      const T *y = t[P::y].as<const T>(), *dy = t[P::dy].as<const T>();
      const float* scale = t[P::scale].as<const float>();
      T* dx = t[P::dx].as<T>();
      const auto run = [&]<int kThreads, int kSize>() {
        const Grid grid = grid_of<kThreads>(p.rows, stream);
        if constexpr (kThreads > 0)
          launch(l2_backward_kernel<T, kThreads, kSize>, grid, y, scale, dy, dx, p.rows, p.cols, max_scale);
        else
          launch(l2_backward_long_kernel<T, kSize>, grid, y, scale, dy, dx, p.cols, max_scale);
      };
      by_row_length<T, kBackwardItems>(of, aligned16(y, dy, dx), same_offset16(y, dy, dx), run);
    };
  });
}
DUET_REGISTER(l2_normalise_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
