// SPDX-License-Identifier: Apache-2.0
// Threads share tiles. A tile is transposed into a buffer that stays in L1, then written out in whole cache lines, past
// the caches when the tensors exceed them: each line of x and of y meets memory once, whatever the strides.
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

// to (columns, rows) = transpose of x (rows, columns); x_step: elements between rows of x.
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

// Starts of rows of the next tile, into L2 while this one is written: the hardware does not foresee them. Always inlined,
// because g++ 12 takes a function that only prefetches for one without effect and drops its calls.
template <class T>
HWY_INLINE void fetch(const T* x, int64_t x_step, int64_t rows) {
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
    if (at.rows == p.rows && at.rows * sizeof(T) % 64 != 0) {  // y's short rows share lines: written as one run
      fetch(start(next), p.cols, next.rows);
      map<kStream>(d, at.columns * at.rows, same, to, buffer);
      continue;
    }
    const int64_t share = ceil_div(next.rows, at.columns);
    for (int64_t j = 0; j < at.columns; ++j) {
      fetch(start(next) + j * share * p.cols, p.cols, std::min(share, next.rows - j * share));
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
