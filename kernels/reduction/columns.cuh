// SPDX-License-Identifier: Apache-2.0
// Sums of columns, for the sum along axis 0 and for bias gradients. The rows are cut into parts so that the whole GPU has
// work; a second launch adds the parts. Which thread adds what depends on the shape alone.
#pragma once
#include <algorithm>

#include "core/plan.h"
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

// What is summed: read.operator()<kSize>(i) gives the pack of T at element i.
template <class T>
struct ReadPlain {
  const T* x;
  using Element = T;
  template <int kSize>
  __device__ __forceinline__ Pack<T, kSize> operator()(int64_t i) const {
    return load_pack<kSize>(x + i);
  }
  bool aligned() const { return aligned16(x); }
};
// g = dy where y > 0, else 0: is stored on the way.
template <class T>
struct ReadMasked {
  const T *y, *dy;
  T* g;
  using Element = T;
  template <int kSize>
  __device__ __forceinline__ Pack<T, kSize> operator()(int64_t i) const {
    const auto gate = load_pack<kSize>(y + i);
    auto pack = load_pack<kSize>(dy + i);
#pragma unroll
    for (int e = 0; e < kSize; ++e)
      if (!(float(gate.at[e]) > 0)) pack.at[e] = T(0.0f);
    store_pack(g + i, pack);
    return pack;
  }
  bool aligned() const { return aligned16(y, dy, g); }
};

struct Columns {
  static constexpr int kLanes = 32, kRows = 8;  // threads of a block
  static constexpr int64_t kAddsInARow = 1024;  // of one thread
};

// out[part, c] = the sum of rows part * height ... of at most `height`. Blocks of (32, 8), one for each strip of 32 * kSize
// columns (grid x) and part (grid y); a thread adds every 8th row of kSize columns. 1 to 8 KiB of shared memory. Rows are
// aligned to kSize elements. read: (rows, cols), out: (parts, cols).
template <int kSize, class Read, class Out>
__global__ void __launch_bounds__(Columns::kLanes* Columns::kRows)
    columns_kernel(Read read, Out* out, int64_t rows, int64_t cols, int64_t height) {
  constexpr int kLanes = Columns::kLanes, kRows = Columns::kRows;
  DUET_SHARED(float, shared, [kRows][kLanes * kSize]);
  const int64_t c = (int64_t{blockIdx.x} * kLanes + threadIdx.x) * kSize, first = blockIdx.y * height;
  const int64_t last = min(rows, first + height);
  const int lane = static_cast<int>(threadIdx.x) * kSize, y = static_cast<int>(threadIdx.y);
  float sum[kSize] = {};
  if (c < cols) {
#pragma unroll 4
    for (int64_t r = first + y; r < last; r += kRows) {
      const auto pack = read.template operator()<kSize>(r * cols + c);
#pragma unroll
      for (int e = 0; e < kSize; ++e) sum[e] += float(pack.at[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < kSize; ++e) shared[y][lane + e] = sum[e];
  __syncthreads();
  for (int i = y * kLanes + static_cast<int>(threadIdx.x); i < kLanes * kSize; i += kLanes * kRows) {
    const int64_t column = int64_t{blockIdx.x} * kLanes * kSize + i;
    float total = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) total += shared[r][i];
    if (column < cols) out[blockIdx.y * cols + column] = Out(total);
  }
}

template <class Read, class Out>
void launch_columns(cudaStream_t stream, const Read& read, Out* out, int64_t rows, int64_t cols, int64_t parts,
                    int64_t height) {
  constexpr int kFull = kPack<typename Read::Element>;
  const auto grid = [&](int64_t size) {
    return Grid{.blocks = {ceil_div(cols, Columns::kLanes * size), parts},
                .threads = {Columns::kLanes, Columns::kRows},
                .stream = stream};
  };
  if (cols % kFull == 0 && read.aligned())
    launch(columns_kernel<kFull, Read, Out>, grid(kFull), read, out, rows, cols, height);
  else
    launch(columns_kernel<1, Read, Out>, grid(1), read, out, rows, cols, height);
}

// A prepared sum over rows. The parts' sums lie in the workspace of the plan that it is a part of.
template <class T>
class ColumnSum {
 public:
  ColumnSum(int64_t rows, int64_t cols, GpuContext& gpu, WorkspaceLayout& workspace)
      : rows_(rows), cols_(cols), stream_(gpu.stream()) {
    const int64_t strips =
        std::max<int64_t>(1, ceil_div(cols, Columns::kLanes * (cols % kPack<T> == 0 ? kPack<T> : 1)));
    const int64_t for_speed = std::min(ceil_div(4 * gpu.multiprocessors(), strips), ceil_div(rows, 64));
    parts_ = std::max({int64_t{1}, for_speed, ceil_div(rows, Columns::kRows * Columns::kAddsInARow)});
    height_ = ceil_div(rows, parts_);
    if (parts_ > 1) partial_ = workspace.add<float>(parts_ * cols);
  }
  static bool serves(int64_t rows) { return rows <= int64_t{1} << 26; }  // one more launch would go further

  // args: of the plan's run.
  template <class Read>
  void enqueue(const Args& args, const Read& read, T* y) const {
    if (parts_ == 1) return launch_columns(stream_, read, y, rows_, cols_, 1, height_);
    float* partial = args.workspace(partial_);
    launch_columns(stream_, read, partial, rows_, cols_, parts_, height_);
    launch_columns(stream_, ReadPlain<float>{partial}, y, parts_, cols_, 1, parts_);
  }

 private:
  int64_t rows_, cols_, parts_, height_;
  cudaStream_t stream_;
  WorkspacePiece<float> partial_;
};

}  // namespace duet::DUET_DEVICE
