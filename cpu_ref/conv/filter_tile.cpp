// SPDX-License-Identifier: Apache-2.0
// A tile of `rows` x 2 vectors of sums stays in registers while the pixels pass. Each pixel loads two vectors of dy
// (output channels) and multiplies them by the values of x that the rows read there, broadcast from where they lie.
// This is the micro-kernel of gemm/engine_kernel.cpp with another way to find A. Called by
// conv2d_backward_filter_tuned.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/conv/filter_tile.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>  // Prefetch

#include <array>
#include <utility>

#include "cpu_ref/conv/filter_tile.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/memory/transpose_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace duet::filter_gradient::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: load_as_f32, store_f32_as, for_float, transpose_block

using D = hn::ScalableTag<float>;
using Vec = hn::Vec<D>;
constexpr D d;
constexpr int64_t kLanes = hn::MaxLanes(d);
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 14 : 6;  // as in gemm/engine_kernel.cpp
constexpr int64_t kColumns = 2 * kLanes;

// One tile of kR rows and kV vectors of columns.
template <int kR, int kV>
void micro_kernel(const Tile& t) {
  // Load the sums, or start from 0.
  Vec sum[kR][kV];
#pragma GCC unroll 16
  for (int i = 0; i < kR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kV; ++j) sum[i][j] = t.fresh ? hn::Zero(d) : hn::LoadU(d, t.sums + (i * kV + j) * kLanes);

  // Products of all pixels.
  const float* line[kR];
#pragma GCC unroll 16
  for (int i = 0; i < kR; ++i) line[i] = t.line[i];
  const float* dy = t.dy;
  for (int64_t image = 0; image < t.images; ++image)
    for (int64_t row = 0; row < t.height; ++row) {
      int64_t at = image * t.image_step + row * t.row_step;
      for (int64_t pixel = 0; pixel < t.width; ++pixel, at += t.pixel_step, dy += kV * kLanes) {
        Vec column[kV];
#pragma GCC unroll 2
        for (int j = 0; j < kV; ++j) {
          column[j] = hn::LoadU(d, dy + j * kLanes);
          hwy::Prefetch(dy + 8 * kV * kLanes + j * kLanes);
        }
#pragma GCC unroll 16
        for (int i = 0; i < kR; ++i) {
          const Vec x = hn::Set(d, line[i][at]);
#pragma GCC unroll 2
          for (int j = 0; j < kV; ++j) sum[i][j] = hn::MulAdd(x, column[j], sum[i][j]);
        }
      }
    }
    // Write back.
#pragma GCC unroll 16
  for (int i = 0; i < kR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kV; ++j) hn::StoreU(sum[i][j], d, t.sums + (i * kV + j) * kLanes);
}

using MicroKernel = void (*)(const Tile&);
template <int kV, int... kHeights>
constexpr std::array<MicroKernel, sizeof...(kHeights)> heights(std::integer_sequence<int, kHeights...>) {
  return {&micro_kernel<kHeights + 1, kV>...};
}
template <int kV>
constexpr auto kKernels = heights<kV>(std::make_integer_sequence<int, kRows>());

void run(const Tile& t) {
  const auto height = static_cast<size_t>(t.rows - 1);
  (t.columns > kLanes ? kKernels<2> : kKernels<1>)[height](t);
}

void shape(TileShape* to) { *to = {kRows, kColumns, kLanes}; }

// The sums, transposed and rounded to T. 32 lines at a time are transposed in a buffer, so that whole cache lines are
// read and written.
template <class T>
void store_transposed(const float* sums, int64_t columns, int64_t lines, int64_t count, int64_t step, T* dw) {
  constexpr int64_t kSideF = kSide<uint32_t>, kLinesAtOnce = 32;
  HWY_ALIGN float transposed[kColumns * kLinesAtOnce];
  for (int64_t first = 0; first < lines; first += kLinesAtOnce) {
    const int64_t here = std::min(kLinesAtOnce, lines - first), whole = here / kSideF * kSideF;
    for (int64_t k = 0; k < columns; k += kSideF)
      for (int64_t i = 0; i < whole; i += kSideF)
        transpose_block(reinterpret_cast<const uint32_t*>(sums + (first + i) * columns + k), columns,
                        reinterpret_cast<uint32_t*>(transposed + k * kLinesAtOnce + i), kLinesAtOnce);
    for (int64_t i = whole; i < here; ++i)
      for (int64_t k = 0; k < columns; ++k) transposed[k * kLinesAtOnce + i] = sums[(first + i) * columns + k];
    for (int64_t k = 0; k < count; ++k)
      for (int64_t i = 0; i < here; i += kLanes)
        store_f32_as(d, hn::LoadU(d, transposed + k * kLinesAtOnce + i), dw + k * step + first + i, here - i);
  }
}
void store_any(const float* sums, int64_t columns, int64_t lines, int64_t count, int64_t step, DType dtype, void* dw) {
  for_float(dtype, [&]<class T>() { store_transposed(sums, columns, lines, count, step, static_cast<T*>(dw)); });
}

}  // namespace duet::filter_gradient::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::filter_gradient {
namespace {
HWY_EXPORT(run);
HWY_EXPORT(shape);
HWY_EXPORT(store_any);
}  // namespace

TileShape tile_shape() {
  TileShape s;
  HWY_DYNAMIC_DISPATCH(shape)(&s);
  return s;
}
void run_tile(const Tile& tile) { HWY_DYNAMIC_DISPATCH(run)(tile); }
void store_filters(const float* sums, int64_t columns, int64_t lines, int64_t count, int64_t step, DType dtype,
                   void* dw) {
  HWY_DYNAMIC_DISPATCH(store_any)(sums, columns, lines, count, step, dtype, dw);
}

}  // namespace duet::filter_gradient
#endif
