// SPDX-License-Identifier: Apache-2.0
// A block transposes one square tile through shared memory, so that both reads and writes coalesce. Elements move as
// words of 4 bytes: pairs of neighbours for the halves, where rows and cols are even.
#include "simt/launch.h"
#include "ops/memory/transpose.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kLanes = 32, kRows = 8;  // threads of a block

// An access is kSize elements; a tile has kLanes * kSize rows and columns. One block of (32, 8) per tile and matrix, in
// order along cols, then rows, then batch. Shared memory: the tile, with a padding of one word per row, so that the
// elements of a column are in different banks. x: (batch, rows, cols), y: (batch, cols, rows).
template <class T, int kSize>
__global__ void __launch_bounds__(kLanes* kRows)
    transpose_kernel(const T* x, T* y, int64_t rows, int64_t cols, int64_t tiles_down, int64_t tiles_across) {
  constexpr int kTile = kLanes * kSize;
  struct alignas(kSize * sizeof(T)) Word {
    T at[kSize];
  };
  DUET_SHARED(T, tile, [kTile][kTile + (sizeof(T) == 4 ? 1 : 2)]);
  const int64_t index = blockIdx.x, b = index / tiles_across / tiles_down;
  const int64_t r0 = index / tiles_across % tiles_down * kTile, c0 = index % tiles_across * kTile;
  x += b * rows * cols;
  y += b * rows * cols;
  const int lane = static_cast<int>(threadIdx.x) * kSize;

  // Rows of x to the tile.
#pragma unroll
  for (int r = static_cast<int>(threadIdx.y); r < kTile; r += kRows)
    if (r0 + r < rows && c0 + lane < cols) {
      const Word word = *reinterpret_cast<const Word*>(x + (r0 + r) * cols + c0 + lane);
#pragma unroll
      for (int e = 0; e < kSize; ++e) tile[r][lane + e] = word.at[e];
    }
  __syncthreads();

  // Columns of the tile to rows of y.
#pragma unroll
  for (int c = static_cast<int>(threadIdx.y); c < kTile; c += kRows)
    if (c0 + c < cols && r0 + lane < rows) {
      Word word;
#pragma unroll
      for (int e = 0; e < kSize; ++e) word.at[e] = tile[lane + e][c];
      *reinterpret_cast<Word*>(y + (c0 + c) * rows + r0 + lane) = word;
    }
}

template <class T, int kSize>
void transpose(const Transpose& p, const void* x, void* y, cudaStream_t stream) {
  constexpr int kTile = kLanes * kSize;
  const int64_t down = ceil_div(p.rows, kTile), across = ceil_div(p.cols, kTile);
  const Grid grid{.blocks = p.batch * down * across, .threads = {kLanes, kRows}, .stream = stream};
  launch(transpose_kernel<T, kSize>, grid, static_cast<const T*>(x), static_cast<T*>(y), p.rows, p.cols, down, across);
}

Plan transpose_tuned(const Transpose& p, GpuContext& gpu) {
  if (size_of(p.dtype) != 4 && size_of(p.dtype) != 2) return Unsupported{std::string("dtype ") + name_of(p.dtype)};
  return [p, stream = gpu.stream()](Args t) {
    const void* x = t[Transpose::x].data;
    void* y = t[Transpose::y].data;
    const bool pairs = p.rows % 2 == 0 && p.cols % 2 == 0 && reinterpret_cast<uintptr_t>(x) % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(y) % 4 == 0;
    if (size_of(p.dtype) == 4)
      transpose<uint32_t, 1>(p, x, y, stream);
    else if (pairs)
      transpose<uint16_t, 2>(p, x, y, stream);
    else
      transpose<uint16_t, 1>(p, x, y, stream);
  };
}
DUET_REGISTER(transpose_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
