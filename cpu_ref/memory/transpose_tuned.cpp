// SPDX-License-Identifier: Apache-2.0
// transpose of a batch of matrices. Threads share the tiles (transpose_tiles.h). A tile is transposed, in registers,
// into a buffer that stays in L1; then the buffer is written out in whole cache lines, past the caches when the tensors
// exceed them. So each line of x and of y moves between memory and cache once, whatever the strides.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/memory/transpose_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/memory/transpose_block-inl.h"
#include "cpu_ref/memory/transpose_tiles.h"
#include "cpu_ref/streaming.h"
#include "ops/memory/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// to (columns, rows) = the transpose of x (rows, columns). x_step: elements from one row of x to the next.
template <class T>
HWY_INLINE void transpose_tile(const T* x, int64_t x_step, int64_t rows, int64_t columns, T* to) {
  int64_t i = 0;
  for (; i + kSide<T> <= rows; i += kSide<T>) {
    const T* row = x + i * x_step;
    int64_t j = 0;
    for (; j + kSide<T> <= columns; j += kSide<T>) transpose_block(row + j, x_step, to + j * rows + i, rows);
    for (; j < columns; ++j)
      for (int64_t k = 0; k < kSide<T>; ++k) to[j * rows + i + k] = row[k * x_step + j];
  }
  for (; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = x[i * x_step + j];
}

// Fetches `rows` rows of the next tile into L2 while this tile is written, since the hardware prefetcher cannot predict
// where they start. Always inlined: g++ 12 drops calls of a function that only prefetches, because it seems to have no
// effect.
template <class T>
HWY_INLINE void prefetch_rows(const T* x, int64_t x_step, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t byte = 0; byte < Tiles::kColumnBytes; byte += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(x + i * x_step) + byte, 0, 2);
}

template <bool kStream, class T>
void transpose_tiles_of(const Transpose& p, const T* x, T* y, int64_t first, int64_t last) {
  const Tiles tiles(p, sizeof(T));
  alignas(64) T buffer[Tiles::kBytes / sizeof(T)];
  const hn::ScalableTag<T> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto start = [&](const Tiles::Place& at) { return x + (at.batch * p.rows + at.row) * p.cols + at.column; };
  for (int64_t tile = first; tile < last; ++tile) {
    const Tiles::Place at = tiles.place(tile), next = tiles.place(std::min(tile + 1, last - 1));
    transpose_tile(start(at), p.cols, at.rows, at.columns, buffer);
    T* to = y + (at.batch * p.cols + at.column) * p.rows + at.row;
    // Rows of y that are shorter than a tile and no whole lines: they share lines, so the tile is written as one run.
    if (at.rows == p.rows && at.rows * sizeof(T) % 64 != 0) {
      prefetch_rows(start(next), p.cols, next.rows);
      map<kStream>(d, at.columns * at.rows, same, to, buffer);
      continue;
    }
    // Otherwise one row of y after the other, and with each some rows of the next tile are fetched.
    const int64_t rows_per_column = ceil_div(next.rows, at.columns);
    for (int64_t j = 0; j < at.columns; ++j) {
      prefetch_rows(start(next) + j * rows_per_column * p.cols, p.cols,
                    std::min(rows_per_column, next.rows - j * rows_per_column));
      map<kStream>(d, at.rows, same, to + j * p.rows, buffer + j * at.rows);
    }
  }
  if (kStream) hwy::FlushStream();
}

template <class T>
void transpose_tiles_of(const Transpose& p, const void* x, void* y, int64_t first, int64_t last, bool stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  stream ? transpose_tiles_of<true>(p, from, to, first, last) : transpose_tiles_of<false>(p, from, to, first, last);
}
void transpose_tiles(const Transpose& p, const void* x, void* y, int64_t first, int64_t last, bool stream) {
  if (size_of(p.dtype) == 4)
    transpose_tiles_of<uint32_t>(p, x, y, first, last, stream);
  else
    transpose_tiles_of<uint16_t>(p, x, y, first, last, stream);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(transpose_tiles);

Plan transpose_tuned(const Transpose& p, CpuContext& cpu) {
  const int64_t size = size_of(p.dtype);
  if (size != 2 && size != 4) return Unsupported{"elements of neither 2 nor 4 bytes"};
  const Tiles tiles(p, size);
  const bool stream = beyond_cache(2 * p.batch * p.rows * p.cols * size);
  return [p, tiles, stream, &cpu](Args t) {
    const void* x = t[Transpose::x].data;
    void* y = t[Transpose::y].data;
    cpu.parallel_for(tiles.count(), tiles.grain(), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(transpose_tiles)(p, x, y, first, last, stream);
    });
  };
}
DUET_REGISTER(transpose_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
