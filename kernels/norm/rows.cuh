// SPDX-License-Identifier: Apache-2.0
// How rows are distributed over threads in the tuned kernels of softmax, layernorm, rmsnorm and l2_normalise: a warp or
// a block holds a row in registers, so that memory is read once; a row that does not fit a block's registers is read
// again for each pass, from L2.
#pragma once
#include "kernels/vector.cuh"

namespace duet::DUET_DEVICE {

inline constexpr int kWarp = 32, kBlock = 256;  // threads for one row
inline constexpr int kLongBlock = 512;          // threads for a row that does not fit registers
// A thread may add no more: ops/summation.h.
inline constexpr int64_t kMaxCols = int64_t{kLongBlock} * 1024;

// The first column of this thread's pack number `load`: packs of kSize neighbours are distributed round-robin over
// kThreads.
template <int kThreads, int kSize>
__device__ __forceinline__ int first_column(int load) {
  return (load * kThreads + static_cast<int>(threadIdx.x)) * kSize;
}

// Writes this thread's elements of a row, which is aligned to kSize elements: value(item) is element item % kSize of
// pack item / kSize. A helper that loads a row would cost instructions (tools/sass_profile), as each tensor has its own
// test for the end of the row.
template <int kThreads, int kSize, int kItems, class T, class F>
__device__ __forceinline__ void store_row(T* row, int cols, F&& value) {
#pragma unroll
  for (int load = 0; load < kItems / kSize; ++load) {
    const int c = first_column<kThreads, kSize>(load);
    Pack<T, kSize> pack;
#pragma unroll
    for (int i = 0; i < kSize; ++i) pack.at[i] = T(value(load * kSize + i));
    if (c < cols) store_pack(row + c, pack);
  }
}

// Rows of a tensor, and the multiprocessors that share them.
struct RowShape {
  int64_t rows, cols;
  int multiprocessors;
  // Whether warps with a row each would leave most of the GPU idle, while a row has work for several.
  bool are_few() const { return rows <= int64_t{kBlock / kWarp} * multiprocessors && cols > 8 * kWarp; }
};

// Chooses threads per row and access width, and calls run.operator()<kThreads, kSize>(). kThreads = 0 stands for the
// long kernel, whose rows need not be aligned: it is enough that the tensors have the same offset.
template <class T, int kItems, class Run>
void by_row_length(const RowShape& of, bool aligned, bool same_offset, Run&& run) {
  const int64_t cols = of.cols;
  const bool packs = aligned && cols % kPack<T> == 0;
  if (cols <= kWarp * kItems && !of.are_few())
    packs ? run.template operator()<kWarp, kPack<T>>() : run.template operator()<kWarp, 1>();
  else if (cols <= kBlock * kItems)
    packs ? run.template operator()<kBlock, kPack<T>>() : run.template operator()<kBlock, 1>();
  else
    same_offset ? run.template operator()<0, kPack<T>>() : run.template operator()<0, 1>();
}
template <int kThreads>
Grid grid_of(int64_t rows, cudaStream_t stream) {
  constexpr int kRows = kThreads == 0 ? 1 : kBlock / (kThreads == 0 ? 1 : kThreads);
  return {.blocks = ceil_div(rows, kRows), .threads = {kThreads == 0 ? kLongBlock : kThreads, kRows}, .stream = stream};
}
inline float inv_cols_of(int64_t cols) { return 1 / static_cast<float>(std::max<int64_t>(1, cols)); }

}  // namespace duet::DUET_DEVICE
