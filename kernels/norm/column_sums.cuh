// SPDX-License-Identifier: Apache-2.0
// Two sums for each column at once, for the gradients of a norm's scale and shift. The rows are cut into parts so that the
// whole GPU has work; a second launch adds the parts and hands both sums on. What a thread adds depends on the shape alone.
#pragma once
#include <algorithm>

#include "core/plan.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

struct ColumnSums {
  static constexpr int kLanes = 32, kRows = 8, kFinishRows = 32;  // threads of a block
  static constexpr int64_t kAddsInARow = 1024;                    // of one thread
};

// part[0, k, c] and part[1, k, c]: the sums over rows k height ... of at most `height`. Blocks of (32, 8), one for each strip
// of 32 * kSize columns (grid x) and part (grid y); a thread adds every 8th row. 2 to 16 KiB of shared memory.
// read.operator()<kSize>(row, c, first, second) gives the terms of kSize columns from c on. part: (2, parts, cols).
template <int kSize, class Read>
__global__ void __launch_bounds__(ColumnSums::kLanes* ColumnSums::kRows)
    column_sums_kernel(Read read, float* part, int64_t rows, int64_t cols, int64_t height) {
  constexpr int kLanes = ColumnSums::kLanes, kRows = ColumnSums::kRows;
  DUET_SHARED(float, shared, [2][kRows][kLanes * kSize]);
  const int64_t c = (int64_t{blockIdx.x} * kLanes + threadIdx.x) * kSize, first = blockIdx.y * height;
  const int64_t last = min(rows, first + height);
  const int lane = static_cast<int>(threadIdx.x) * kSize, y = static_cast<int>(threadIdx.y);
  float a[kSize] = {}, b[kSize] = {};
  if (c < cols) {
#pragma unroll 4
    for (int64_t r = first + y; r < last; r += kRows) {
      float u[kSize], v[kSize];
      read.template operator()<kSize>(r, c, u, v);
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        a[e] += u[e];
        b[e] += v[e];
      }
    }
  }
#pragma unroll
  for (int e = 0; e < kSize; ++e) {
    shared[0][y][lane + e] = a[e];
    shared[1][y][lane + e] = b[e];
  }
  __syncthreads();
  for (int i = y * kLanes + static_cast<int>(threadIdx.x); i < 2 * kLanes * kSize; i += kLanes * kRows) {
    const int which = i / (kLanes * kSize), at = i % (kLanes * kSize);
    const int64_t column = int64_t{blockIdx.x} * kLanes * kSize + at;
    float total = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) total += shared[which][r][at];
    if (column < cols) part[(which * int64_t{gridDim.y} + blockIdx.y) * cols + column] = total;
  }
}

// done(c, first, second) with the sums of column c. Blocks of (32, 32), one for each 32 columns; 8 KiB of shared memory.
// part: (2, parts, cols).
template <class Done>
__global__ void __launch_bounds__(ColumnSums::kLanes* ColumnSums::kFinishRows)
    column_sums_finish_kernel(const float* part, int64_t parts, int64_t cols, Done done) {
  constexpr int kLanes = ColumnSums::kLanes, kRows = ColumnSums::kFinishRows;
  DUET_SHARED(float, shared, [2][kRows][kLanes]);
  const int lane = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t c = int64_t{blockIdx.x} * kLanes + lane;
  float a = 0, b = 0;
  if (c < cols)
    for (int64_t k = y; k < parts; k += kRows) {
      a += part[k * cols + c];
      b += part[(parts + k) * cols + c];
    }
  shared[0][y][lane] = a;
  shared[1][y][lane] = b;
  __syncthreads();
  if (y != 0 || c >= cols) return;  // no barrier follows
  a = 0;
  b = 0;
  for (int r = 0; r < kRows; ++r) {
    a += shared[0][r][lane];
    b += shared[1][r][lane];
  }
  done(c, a, b);
}

// Prepared sums over (rows, cols). The parts lie in the workspace of the plan that they belong to. enqueue's kSize, the
// columns of a thread, divides cols.
class ColumnSumsPlan {
 public:
  ColumnSumsPlan(int64_t rows, int64_t cols, GpuContext& gpu, WorkspaceLayout& workspace)
      : rows_(rows), cols_(cols), stream_(gpu.stream()) {
    const int64_t strips = std::max<int64_t>(1, ceil_div(cols, ColumnSums::kLanes * 4));
    const int64_t for_speed = std::min(ceil_div(4 * gpu.multiprocessors(), strips), ceil_div(rows, 64));
    parts_ = std::max({int64_t{1}, for_speed, ceil_div(rows, ColumnSums::kRows * ColumnSums::kAddsInARow)});
    height_ = ceil_div(rows, parts_);
    partial_ = workspace.add<float>(2 * parts_ * cols);
  }
  static bool serves(int64_t rows) {
    return rows <= int64_t{1} << 24;
  }  // parts fit a grid, and their sums the contract

  // args: of the plan's run.
  template <int kSize, class Read, class Done>
  void enqueue(const Args& args, const Read& read, const Done& done) const {
    float* part = args.workspace(partial_);
    launch(column_sums_kernel<kSize, Read>,
           Grid{.blocks = {ceil_div(cols_, ColumnSums::kLanes * kSize), parts_},
                .threads = {ColumnSums::kLanes, ColumnSums::kRows},
                .stream = stream_},
           read, part, rows_, cols_, height_);
    launch(column_sums_finish_kernel<Done>,
           Grid{.blocks = ceil_div(cols_, ColumnSums::kLanes),
                .threads = {ColumnSums::kLanes, ColumnSums::kFinishRows},
                .stream = stream_},
           part, parts_, cols_, done);
  }

 private:
  int64_t rows_, cols_, parts_, height_;
  cudaStream_t stream_;
  WorkspacePiece<float> partial_;
};

}  // namespace duet::DUET_DEVICE
