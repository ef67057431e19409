// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row, whichever holds the row in registers: memory is then read once. Rows that do not fit a
// block's registers are read twice: the first pass computes maximum and sum together (arXiv:1805.02867).
#include "kernels/norm/rows.cuh"
#include "ops/norm/softmax.h"

namespace duet::DUET_DEVICE {
namespace {
// Elements of a row that a thread holds, of each tensor. Lanes of a short row, in packs or single elements, hold fewer:
// places beyond the row cost as much as elements.
constexpr int kForwardItems = 32, kBackwardItems = 16, kShortPacked = 8, kShortSingle = 4;

// kThreads = 32: blocks of (32, 8), 8 rows each. kThreads = 256: blocks of (256, 1), one row each, 32 bytes of shared
// memory. cols <= kThreads * kItems. Rows are aligned to kSize elements. x, y: (rows, cols).
template <class T, int kThreads, int kSize, int kItems>
__global__ void __launch_bounds__(kBlock) softmax_kernel(const T* x, T* y, int64_t rows, int cols) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;  // for a whole warp, which has no block barrier; it does not happen with a block per row
  x += row * cols;
  y += row * cols;

  // Load the row. Row maximum.
  float v[kItems], max = -INFINITY, sum = 0;
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack;
    if (c < cols) pack = load_pack<kSize>(x + c);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      v[load * kSize + i] =
          c < cols ? float(pack.at[i]) : -INFINITY;  // changes neither the maximum nor the sum: exp(-inf) is 0
      max = fmaxf(max, v[load * kSize + i]);
    }
  }
  max = block_reduce<MaxOp, kThreads>(max, part);

  // Sum of exponentials.
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    v[i] = expf(v[i] - max);
    sum += v[i];
  }
  const float inv_sum = 1 / block_reduce<SumOp, kThreads>(sum, part);

  // Write back.
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack;
#pragma unroll
    for (int i = 0; i < kSize; ++i) pack.at[i] = T(v[load * kSize + i] * inv_sum);
    if (c < cols) store_pack(y + c, pack);
  }
}

// One block of kLongBlock per row, 64 bytes of shared memory. kSize > 1: x and y have the same offset from a 16-byte
// boundary.
template <class T, int kSize>
__global__ void __launch_bounds__(kLongBlock) softmax_long_kernel(const T* x, T* y, int64_t cols) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;

  // Row maximum and sum of exponentials in one pass.
  RunningSoftmax mine;
  for_row<kLongBlock, kSize>(x, cols, [&](const auto& pack, int64_t) { mine.add(pack); });
  const float max = block_reduce<MaxOp, kLongBlock>(mine.max, part);
  const float inv_sum = 1 / block_reduce<SumOp, kLongBlock>(mine.sum_to(max), part);

  // Write back.
  for_row<kLongBlock, kSize>(x, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.at[i] = T(expf(float(pack.at[i]) - max) * inv_sum);
    store_pack(y + c, pack);
  });
}

// As softmax_kernel. y, dy, dx: (rows, cols).
template <class T, int kThreads, int kSize, int kItems>
__global__ void __launch_bounds__(kBlock)
    softmax_backward_kernel(const T* y, const T* dy, T* dx, int64_t rows, int cols) {
  DUET_SHARED(float, part, [kBlock / 32]);
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  y += row * cols;
  dy += row * cols;
  dx += row * cols;

  // Load the row. Dot product of y and dy.
  float vy[kItems], vdy[kItems], dot = 0;
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack_y, pack_dy;
    if (c < cols) {
      pack_y = load_pack<kSize>(y + c);
      pack_dy = load_pack<kSize>(dy + c);
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const int item = load * kSize + i;
      vy[item] = c < cols ? float(pack_y.at[i]) : 0;
      vdy[item] = c < cols ? float(pack_dy.at[i]) : 0;
      dot += vy[item] * vdy[item];
    }
  }
  dot = block_reduce<SumOp, kThreads>(dot, part);

  // Write back.
  store_row<kThreads, kSize, kItems>(dx, cols, [&](int i) { return vy[i] * (vdy[i] - dot); });
}

// As softmax_long_kernel, for y, dy and dx.
template <class T, int kSize>
__global__ void __launch_bounds__(kLongBlock)
    softmax_backward_long_kernel(const T* y, const T* dy, T* dx, int64_t cols) {
  DUET_SHARED(float, part, [kLongBlock / 32]);
  y += blockIdx.x * cols;
  dy += blockIdx.x * cols;
  dx += blockIdx.x * cols;

  // Dot product of y and dy.
  float dot = 0;
  for_row<kLongBlock, kSize>(y, cols, [&]<int kWidth>(const Pack<T, kWidth>& pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) dot += float(pack.at[i]) * float(other.at[i]);
  });
  dot = block_reduce<SumOp, kLongBlock>(dot, part);

  // Write back.
  for_row<kLongBlock, kSize>(y, cols, [&]<int kWidth>(Pack<T, kWidth> pack, int64_t c) {
    const auto other = load_pack<kWidth>(dy + c);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pack.at[i] = T(float(pack.at[i]) * (float(other.at[i]) - dot));
    store_pack(dx + c, pack);
  });
}

// As by_row_length of rows.cuh, with elements a thread: run.operator()<kThreads, kSize, kItems>().
template <class T, int kItems, class Run, class... P>
void by_length_and_items(const RowShape& of, Run&& run, const P*... tensors) {
  const int64_t cols = of.cols;
  const bool packs = aligned16(tensors...) && cols % kPack<T> == 0;
  if (packs && cols <= kWarp * kShortPacked)
    run.template operator()<kWarp, kPack<T>, kShortPacked>();
  else if (!packs && cols <= kWarp * kShortSingle)
    run.template operator()<kWarp, 1, kShortSingle>();
  else if (cols <= kWarp * kItems && !of.are_few())
    packs ? run.template operator()<kWarp, kPack<T>, kItems>() : run.template operator()<kWarp, 1, kItems>();
  else if (cols <= kBlock * kItems)
    packs ? run.template operator()<kBlock, kPack<T>, kItems>() : run.template operator()<kBlock, 1, kItems>();
  else
    same_offset16(tensors...) ? run.template operator()<0, kPack<T>, 0>() : run.template operator()<0, 1, 0>();
}

Plan softmax_tuned(const Softmax& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, &gpu](Args t) {
      const T* x = t[Softmax::x].as<const T>();
      T* y = t[Softmax::y].as<T>();
      const auto run = [&]<int kThreads, int kSize, int kItems>() {
        const Grid grid = grid_of<kThreads>(p.rows, gpu.stream());
        if constexpr (kThreads > 0)
          launch(softmax_kernel<T, kThreads, kSize, kItems>, grid, x, y, p.rows, p.cols);
        else
          launch(softmax_long_kernel<T, kSize>, grid, x, y, p.cols);
      };
      by_length_and_items<T, kForwardItems>({p.rows, p.cols, gpu.multiprocessors()}, run, x, y);
    };
  });
}
DUET_REGISTER(softmax_tuned);

Plan softmax_backward_tuned(const SoftmaxBackward& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, &gpu](Args t) {
      const T *y = t[SoftmaxBackward::y].as<const T>(), *dy = t[SoftmaxBackward::dy].as<const T>();
      T* dx = t[SoftmaxBackward::dx].as<T>();
      const auto run = [&]<int kThreads, int kSize, int kItems>() {
        const Grid grid = grid_of<kThreads>(p.rows, gpu.stream());
        if constexpr (kThreads > 0)
          launch(softmax_backward_kernel<T, kThreads, kSize, kItems>, grid, y, dy, dx, p.rows, p.cols);
        else
          launch(softmax_backward_long_kernel<T, kSize>, grid, y, dy, dx, p.cols);
      };
      by_length_and_items<T, kBackwardItems>({p.rows, p.cols, gpu.multiprocessors()}, run, y, dy, dx);
    };
  });
}
DUET_REGISTER(softmax_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
