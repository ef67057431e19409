// SPDX-License-Identifier: Apache-2.0
// The micro-kernels of the matrix engine: run_tile of engine.h. A tile of `rows` x 2 vectors of sums stays in registers
// while k runs; each step loads two vectors of B and multiplies them by values of A, each broadcast to a vector. There
// is a kernel for every number of rows, so the rows of a matrix are shared evenly among tiles and nothing is padded; a
// row alone has several sets of sums. Of columns there are whole vectors, and apart from them a few that are multiplied
// as dot products (run_few).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/engine_kernel.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>  // Prefetch

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cpu_ref/clamp-inl.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/engine.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: load_as_f32, store_f32_as, load, store, for_float, max_or_nan

using D = hn::ScalableTag<float>;
using Vec = hn::Vec<D>;
constexpr D d;
constexpr int64_t kLanes = hn::MaxLanes(d);
// 32 registers (AVX-512) hold 14 x 2 sums, 2 vectors of B and a broadcast of A; 16 registers hold 6 x 2 sums.
constexpr int kRows = HWY_TARGET <= HWY_AVX3 ? 14 : 6;
constexpr int kVectors = 2;
constexpr int64_t kColumns = kVectors * kLanes;

// What is done to a sum before it is stored: v = max(alpha * v + bias, floor). Before the last block of k it changes
// nothing. Where a result of f32 accumulates, c holds no sums: each block of k adds alpha * v to it.
bool adds_to_c(const Result& r) { return r.accumulate && r.dtype == DType::f32; }
struct Finish {
  Vec alpha, floor;
  bool bias, bias_of_rows;  // bias_of_rows: there is one, and it is by row
  Finish(const Tile& t, const Result& r)
      : alpha(hn::Set(d, t.last || adds_to_c(r) ? r.alpha : 1.0f)),
        floor(hn::Set(d, t.last && r.relu ? 0.0f : -INFINITY)),
        bias(t.last && r.bias),
        bias_of_rows(bias && r.bias_of_rows) {}
  HWY_INLINE Vec operator()(Vec v, Vec add) const { return max_or_nan(floor, hn::MulAdd(v, alpha, add)); }
};

// Stores a tile of whole vectors that is not placed and does not accumulate, from `value`: the sums of this block of k,
// rows value_step apart. Values go to c after the last block, sums before it; f32 sums lie in c itself, those of halves
// apart.
template <class T>
void store_whole(const Tile& t, const Result& r, const float* value, int64_t value_step) {
  const Finish finish(t, r);
  const bool to_c = t.last && is_half<T>;
  const auto* given = static_cast<const T*>(r.bias);
  const int64_t column = r.columns ? r.columns->at(t.column) : t.column;
  Vec bias[kVectors];
  for (int j = 0; j < kVectors; ++j)
    bias[j] = finish.bias && !finish.bias_of_rows ? load_as_f32(d, given + t.column + j * kLanes) : hn::Zero(d);
  for (int64_t i = 0; i < t.rows; ++i, value += value_step) {
    float* sums = !to_c || t.add ? t.sums + i * t.sums_step : nullptr;
    T* c = to_c ? static_cast<T*>(r.c) + (t.row + i) * r.step + column : nullptr;
    for (int j = 0; j < kVectors; ++j) {
      if (finish.bias_of_rows) bias[j] = hn::Set(d, static_cast<float>(given[t.row + i]));
      Vec u = hn::LoadU(d, value + j * kLanes);
      if (t.add) u = hn::Add(u, hn::LoadU(d, sums + j * kLanes));
      u = finish(u, bias[j]);
      if (to_c)
        store_f32_as(d, u, c + j * kLanes);
      else
        hn::StoreU(u, d, sums + j * kLanes);
    }
  }
}

// As store_whole, for all other tiles: at the edges of a matrix, with rows or columns anywhere in c, or added to what c
// holds.
template <class T>
void store_edge(const Tile& t, const Result& r, const float* value, int64_t value_step) {
  const Finish finish(t, r);
  const bool to_c = t.last && is_half<T>, in_c = !is_half<T>, each_adds = adds_to_c(r);
  const auto bias_at = [&](int64_t at) { return static_cast<float>(static_cast<const T*>(r.bias)[at]); };
  const auto row_in_c = [&](int64_t i) { return r.rows ? r.rows->at(t.row + i) : (t.row + i) * r.step; };
  for (int64_t first = 0, count = 0; first < t.columns; first += count) {  // runs of columns that are neighbours in c
    const int64_t column = t.column + first;
    count = r.columns ? r.columns->neighbours(column, t.columns - first) : t.columns;
    const int64_t at = r.columns ? r.columns->at(column) : column;
    for (int64_t i = 0; i < t.rows; ++i) {
      float* sums = nullptr;  // not used if a value goes to c without others before it
      if (!to_c || t.add) sums = in_c && t.placed ? t.sums + row_in_c(i) + at : t.sums + i * t.sums_step + first;
      T* c = to_c ? static_cast<T*>(r.c) + row_in_c(i) + at : nullptr;
      const float* v = value + i * value_step + first;
      // A single column: no vectors.
      if (count == 1) {
        float one = *v + (t.add && !each_adds ? *sums : 0.0f);
        if (each_adds)
          one = one * r.alpha + *sums;
        else if (t.last)
          one = one * r.alpha + (r.bias ? bias_at(r.bias_of_rows ? t.row + i : column) : 0.0f);
        if (to_c && r.accumulate) one += static_cast<float>(*c);
        if (t.last && r.relu && one < 0) one = 0;
        if (to_c)
          *c = static_cast<T>(one);
        else
          *sums = one;
        continue;
      }
      for (int64_t j = 0; j < count; j += kLanes) {
        const int64_t left = count - j;
        Vec bias = hn::Zero(d);
        if (finish.bias_of_rows)
          bias = hn::Set(d, bias_at(t.row + i));
        else if (finish.bias)
          bias = load_as_f32(d, static_cast<const T*>(r.bias) + column + j, left);
        Vec u = load(d, v + j, left, 0.0f);
        if (each_adds)
          bias = load(d, sums + j, left, 0.0f);
        else if (t.add)
          u = hn::Add(u, load(d, sums + j, left, 0.0f));
        if (to_c && r.accumulate) bias = load_as_f32(d, c + j, left);
        u = finish(u, bias);
        if (to_c)
          store_f32_as(d, u, c + j, left);
        else
          store(d, u, sums + j, left);
      }
    }
  }
}

void store_any(const Tile& t, const Result& r, const float* value, int64_t value_step) {
  const bool whole = t.columns == kColumns && !t.placed && !r.accumulate;
  for_float(r.dtype, [&]<class T>() { (whole ? store_whole<T> : store_edge<T>)(t, r, value, value_step); });
}

// kAdjacent: the lines of A in the tile are neighbours in memory (A is packed, or stored transposed). Otherwise the k
// values of a line are neighbours.
template <int kR, int kV, bool kAdjacent>
void micro_kernel(const Tile& t, const Result& r) {
  // A row alone has so few sums that each multiply-add would wait for the one before: successive k go in turn to
  // kChains sets of sums.
  constexpr int kChains = kR == 1 ? 8 / kV : 1;
  Vec chains[kChains][kR][kV];
#pragma GCC unroll 8
  for (int q = 0; q < kChains; ++q)
#pragma GCC unroll 16
    for (int i = 0; i < kR; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kV; ++j) chains[q][i][j] = hn::Zero(d);
  auto& sum = chains[0];

  // Prefetch the sums in memory: they are further away than a and b, and arrive while the loop runs.
  if (t.sums && !t.placed)
    for (int64_t i = 0; i < kR; ++i)
      for (int64_t j = 0; j < kV; ++j) hwy::Prefetch(t.sums + i * t.sums_step + j * kLanes);
  // Products of all k; then the sets of a row alone are added up.
  const float *a = t.a, *b = t.b;
  const int64_t a_step = kAdjacent ? t.a_k : t.a_line, b_step = t.b_k;
  const auto step = [&](Vec(&to)[kR][kV]) HWY_ATTR {
    Vec column[kV];
#pragma GCC unroll 2
    for (int j = 0; j < kV; ++j) {
      column[j] = hn::LoadU(d, b + j * kLanes);
      hwy::Prefetch(b + t.b_ahead + j * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kR; ++i) {
      const Vec row = hn::Set(d, kAdjacent ? a[i] : a[i * a_step]);
#pragma GCC unroll 2
      for (int j = 0; j < kV; ++j) to[i][j] = hn::MulAdd(row, column[j], to[i][j]);
    }
    a += kAdjacent ? a_step : 1;
    b += b_step;
  };
  int64_t p = 0;
  for (; p + kChains <= t.kc; p += kChains)
#pragma GCC unroll 8
    for (int q = 0; q < kChains; ++q) step(chains[q]);
  for (; p < t.kc; ++p) step(sum);
#pragma GCC unroll 8
  for (int q = 1; q < kChains; ++q)
#pragma GCC unroll 2
    for (int j = 0; j < kV; ++j) sum[0][j] = hn::Add(sum[0][j], chains[q][0][j]);

  // Write back: whole vectors of neighbouring columns straight from registers, everything else through memory.
  if (t.columns == kV * kLanes && (r.dtype == DType::f32 ? !t.placed : !t.last)) {
    const bool each_adds = adds_to_c(r);
    float* to = t.sums;
    // Sums to which nothing is done are stored as they are. In a product of few k, what follows takes a tenth of the
    // time.
    if (!t.add && !each_adds && (!t.last || (r.alpha == 1 && !r.bias && !r.relu))) {
#pragma GCC unroll 16
      for (int i = 0; i < kR; ++i, to += t.sums_step)
#pragma GCC unroll 2
        for (int j = 0; j < kV; ++j) hn::StoreU(sum[i][j], d, to + j * kLanes);
      return;
    }
    const Finish finish(t, r);
    const auto* given = static_cast<const float*>(r.bias);
    Vec bias[kV];
#pragma GCC unroll 2
    for (int j = 0; j < kV; ++j)
      bias[j] = finish.bias && !finish.bias_of_rows ? hn::LoadU(d, given + t.column + j * kLanes) : hn::Zero(d);
#pragma GCC unroll 16
    for (int i = 0; i < kR; ++i, to += t.sums_step)
#pragma GCC unroll 2
      for (int j = 0; j < kV; ++j) {
        Vec v = sum[i][j];
        if (finish.bias_of_rows) bias[j] = hn::Set(d, given[t.row + i]);
        if (each_adds)
          bias[j] = hn::LoadU(d, to + j * kLanes);
        else if (t.add)
          v = hn::Add(v, hn::LoadU(d, to + j * kLanes));
        hn::StoreU(finish(v, bias[j]), d, to + j * kLanes);
      }
    return;
  }
  HWY_ALIGN float spilled[kR * kV * kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kV; ++j) hn::Store(sum[i][j], d, spilled + (i * kV + j) * kLanes);
  store_any(t, r, spilled, kV * kLanes);
}

// A tile of few columns where lines of A are adjacent: vectors of rows. Vectors of columns would be empty for the most
// part.
template <int kC>
void few_across_k(const Tile& t, float* value) {
  constexpr int kSums = 8 / kC;  // of a column, so that enough of them are independent
  for (int64_t row = 0; row < t.rows; row += kLanes) {
    const int64_t rows = std::min(kLanes, t.rows - row);
    Vec sum[kSums][kC];
#pragma GCC unroll 8
    for (int q = 0; q < kSums; ++q)
#pragma GCC unroll 4
      for (int j = 0; j < kC; ++j) sum[q][j] = hn::Zero(d);
    const auto step = [&](int64_t p, Vec* sums) HWY_ATTR {
      const Vec v = load(d, t.a + p * t.a_k + row, rows, 0.0f);
#pragma GCC unroll 4
      for (int j = 0; j < kC; ++j) sums[j] = hn::MulAdd(v, hn::Set(d, t.b[j * t.kc + p]), sums[j]);
    };
    int64_t p = 0;
    for (; p + kSums <= t.kc; p += kSums)
#pragma GCC unroll 8
      for (int q = 0; q < kSums; ++q) step(p + q, sum[q]);
    for (; p < t.kc; ++p) step(p, sum[0]);
    HWY_ALIGN float lanes[kLanes];
    for (int j = 0; j < kC; ++j) {
      for (int q = 1; q < kSums; ++q) sum[0][j] = hn::Add(sum[0][j], sum[q][j]);
      hn::Store(sum[0][j], d, lanes);
      for (int64_t i = 0; i < rows; ++i) value[(row + i) * kFewColumns + j] = lanes[i];
    }
  }
}
// A tile of few columns: where A lies along k, a thin product of its own.
void run_few(const Tile& t, const Result& r) {
  constexpr void (*kAcross[])(const Tile&, float*) = {few_across_k<1>, few_across_k<2>, few_across_k<3>,
                                                      few_across_k<4>};
  float value[kRows * kFewColumns];
  if (t.a_line == 1) {
    kAcross[t.columns - 1](t, value);
  } else {
    run_thin({.dtype = DType::f32,
              .matrix = t.a,
              .thin = t.b,
              .matrix_step = t.a_line,
              .thin_step = t.kc,
              .k = t.kc,
              .vectors = t.columns,
              .c = value,
              .c_line = kFewColumns,
              .c_thin = 1,
              .bias = nullptr,
              .bias_line = 0,
              .bias_thin = 0,
              .alpha = 1,
              .relu = false,
              .accumulate = false},
             0, t.rows);
  }
  store_any(t, r, value, kFewColumns);
}

using MicroKernel = void (*)(const Tile&, const Result&);
template <int kV, bool kAdjacent, int... kHeights>
constexpr std::array<MicroKernel, sizeof...(kHeights)> heights(std::integer_sequence<int, kHeights...>) {
  return {&micro_kernel<kHeights + 1, kV, kAdjacent>...};
}
template <int kV, bool kAdjacent>
constexpr auto kKernels = heights<kV, kAdjacent>(std::make_integer_sequence<int, kRows>());

void run(const Tile& t, const Result& r) {
  if (t.few) return run_few(t, r);
  const auto height = static_cast<size_t>(t.rows - 1);
  const bool adjacent = t.a_line == 1, wide = t.columns > kLanes;
  (adjacent ? (wide ? kKernels<2, true> : kKernels<1, true>)[height]
            : (wide ? kKernels<2, false> : kKernels<1, false>)[height])(t, r);
}

void shape(KernelShape* to) { *to = {kRows, kColumns, kLanes}; }

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::engine {
namespace {
HWY_EXPORT(run);
HWY_EXPORT(store_any);
HWY_EXPORT(shape);
}  // namespace

KernelShape kernel_shape() {
  KernelShape s;
  HWY_DYNAMIC_DISPATCH(shape)(&s);
  return s;
}
void run_tile(const Tile& tile, const Result& result) { HWY_DYNAMIC_DISPATCH(run)(tile, result); }

void store_tile(const Tile& tile, const Result& result, const float* value, int64_t value_step) {
  HWY_DYNAMIC_DISPATCH(store_any)(tile, result, value, value_step);
}

}  // namespace duet::engine
#endif
