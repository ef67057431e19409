// SPDX-License-Identifier: Apache-2.0
// A block transposes one square tile through shared memory, so that both reads and writes coalesce. Elements move as
// words of 4 bytes: pairs of neighbours for the halves, where rows and cols are even. Only tiles at an edge test
// indices.
#include "kernels/divider.cuh"
#include "ops/memory/transpose.h"

namespace duet::DUET_DEVICE {
namespace {
constexpr int kLanes = 32, kRows = 8;  // threads of a block

// An access is kSize elements; a tile has kLanes * kSize rows and columns. One block of (32, 8) per tile and matrix, in
// order along cols, then rows, then batch. Shared memory: the tile, with a padding of one word per row, so that the
// elements of a column are in different banks. x: (batch, rows, cols), y: (batch, cols, rows).
template <class T, int kSize>
__global__ void __launch_bounds__(kLanes* kRows)
    transpose_kernel(const T* x, T* y, int64_t rows, int64_t cols, Divider by_down, Divider by_across) {
  constexpr int kTile = kLanes * kSize;
  struct alignas(kSize * sizeof(T)) Word {
    T at[kSize];
  };
  DUET_SHARED(T, tile, [kTile][kTile + (sizeof(T) == 4 ? 1 : 2)]);
  uint32_t b = blockIdx.x;  // of the matrix, after these divisions by the numbers of tiles
  const int64_t c0 = int64_t{by_across.split(b)} * kTile, r0 = int64_t{by_down.split(b)} * kTile;
  x += b * rows * cols;
  y += b * rows * cols;
  const int lane = static_cast<int>(threadIdx.x) * kSize, row = static_cast<int>(threadIdx.y);

  const T* from = x + (r0 + row) * cols + c0 + lane;
  T* to = y + (c0 + row) * rows + r0 + lane;
  const bool whole = r0 + kTile <= rows && c0 + kTile <= cols;

  // Rows of x to the tile.
  const auto read = [&](auto inside) {
#pragma unroll
    for (int i = 0; i < kTile; i += kRows)
      if (inside(r0 + row + i, c0 + lane)) {
        const Word word = *reinterpret_cast<const Word*>(from + i * cols);
#pragma unroll
        for (int e = 0; e < kSize; ++e) tile[row + i][lane + e] = word.at[e];
      }
  };
  whole ? read([](int64_t, int64_t) { return true; })
        : read([&](int64_t r, int64_t c) { return r < rows && c < cols; });
  __syncthreads();

  // Columns of the tile to rows of y.
  const auto write = [&](auto inside) {
#pragma unroll
    for (int i = 0; i < kTile; i += kRows)
      if (inside(r0 + lane, c0 + row + i)) {
        Word word;
#pragma unroll
        for (int e = 0; e < kSize; ++e) word.at[e] = tile[lane + e][row + i];
        *reinterpret_cast<Word*>(to + i * rows) = word;
      }
  };
  whole ? write([](int64_t, int64_t) { return true; })
        : write([&](int64_t r, int64_t c) { return r < rows && c < cols; });
}

template <class T, int kSize>
void transpose(const Transpose& p, const void* x, void* y, cudaStream_t stream) {
  constexpr int kTile = kLanes * kSize;
  const int64_t down = ceil_div(p.rows, kTile), across = ceil_div(p.cols, kTile);
  const Grid grid{.blocks = p.batch * down * across, .threads = {kLanes, kRows}, .stream = stream};
  launch(transpose_kernel<T, kSize>, grid, static_cast<const T*>(x), static_cast<T*>(y), p.rows, p.cols, Divider(down),
         Divider(across));
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
