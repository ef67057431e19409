// SPDX-License-Identifier: Apache-2.0
// The vector code of linear_gelu.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/linear_gelu.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "cpu_ref/activation-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/linear_gelu.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void finish_gelu_any(DType dtype, const float* sum, const void* bias, int64_t out, int64_t first, int64_t last,
                     void* pre, void* y) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(dtype, [&]<class T>() HWY_ATTR {
    const auto* b = static_cast<const T*>(bias);
    for (int64_t i = first * out; i < last * out; i += out)
      for (int64_t o = 0; o < out; o += lanes) {
        const int64_t at = i + o, left = out - o;
        const auto v = hn::Add(load(d, sum + at, left, 0.0f), load_as_f32(d, b + o, left));
        store_f32_as(d, v, static_cast<T*>(pre) + at, left);
        store_f32_as(d, gelu_tanh(d, v), static_cast<T*>(y) + at, left);
      }
  });
}

void gelu_gradient_any(DType dtype, const void* pre, const void* dy, int64_t first, int64_t last, void* g) {
  const hn::ScalableTag<float> d;
  for_float(dtype, [&]<class T>() HWY_ATTR {
    map<false>(
        d, last - first, [d](auto v, auto up) HWY_ATTR { return hn::Mul(up, gelu_tanh_slope(d, v)); },
        static_cast<T*>(g) + first, static_cast<const T*>(pre) + first, static_cast<const T*>(dy) + first);
  });
}

// `columns` columns from `column` on of rows [first, last): dh, and their sums. A part of a row is added while it lies
// in L1.
void slope_rows_any(DType dtype, const float* product, const void* h, int64_t in, int64_t first, int64_t last,
                    int64_t column, int64_t columns, void* dh, float* sums) {
  const hn::ScalableTag<float> d;
  std::fill_n(sums, columns, 0.0f);
  for_float(dtype, [&]<class T>() HWY_ATTR {
    for (int64_t at = first * in + column; at < last * in; at += in) {
      T* row = static_cast<T*>(dh) + at;
      map<false>(
          d, columns, [d](auto v, auto up) HWY_ATTR { return hn::Mul(up, gelu_tanh_slope(d, v)); }, row,
          static_cast<const T*>(h) + at, product + at);
      map<false>(
          d, columns, [](auto sum, auto v) HWY_ATTR { return hn::Add(sum, v); }, sums, sums, row);
    }
  });
}
// Columns [first, last) of (rows, in): their sums.
void add_rows_any(DType dtype, const float* sums, int64_t rows, int64_t in, int64_t first, int64_t last, void* dbias) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(dtype, [&]<class T>() HWY_ATTR {
    for (int64_t p = first; p < last; p += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t r = 0; r < rows; ++r) sum = hn::Add(sum, load(d, sums + r * in + p, last - p, 0.0f));
      store_f32_as(d, sum, static_cast<T*>(dbias) + p, last - p);
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(finish_gelu_any);
HWY_EXPORT(gelu_gradient_any);
HWY_EXPORT(slope_rows_any);
HWY_EXPORT(add_rows_any);
}  // namespace

void finish_gelu(DType dtype, const float* sum, const void* bias, int64_t out, int64_t first, int64_t last, void* pre,
                 void* y) {
  HWY_DYNAMIC_DISPATCH(finish_gelu_any)(dtype, sum, bias, out, first, last, pre, y);
}
void gelu_gradient(DType dtype, const void* pre, const void* dy, int64_t first, int64_t last, void* g) {
  HWY_DYNAMIC_DISPATCH(gelu_gradient_any)(dtype, pre, dy, first, last, g);
}
void gelu_gradient_and_sums(const CpuContext& cpu, DType dtype, const float* product, const void* h, int64_t n,
                            int64_t in, void* dh, void* dbias, float* sums) {
  const int64_t rows = slope_sums(n), strips = ceil_div(in, kSumColumns);
  cpu.parallel_for(rows * strips, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t r = task / strips, column = task % strips * kSumColumns;
      HWY_DYNAMIC_DISPATCH(slope_rows_any)
      (dtype, product, h, in, r * kSumRows, std::min(n, (r + 1) * kSumRows), column, std::min(kSumColumns, in - column),
       dh, sums + r * in + column);
    }
  });
  const int64_t columns = std::max<int64_t>(256, kChunkElements / std::max<int64_t>(1, rows));  // of a task
  cpu.parallel_for(ceil_div(in, columns), 1, [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(add_rows_any)
    (dtype, sums, rows, in, first * columns, std::min(in, last * columns), dbias);
  });
}
}  // namespace duet
#endif
