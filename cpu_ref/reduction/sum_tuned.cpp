// SPDX-License-Identifier: Apache-2.0
// sum over rows or over columns, with vectors of f32. The tensor is cut into blocks that do not depend on the number of
// threads (sum_blocks.h), so neither does the result. Threads share the blocks; the partial sums of the blocks are
// added in order, in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/reduction/sum_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/reduce-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/reduction/sum_blocks.h"
#include "ops/reduction/sum.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Blocks [first, last) of rows: partial[b] = the sum of part b % blocks of row b / blocks. Eight accumulators, because
// the terms are bare loads (reduce-inl.h).
void sum_row_blocks(const Sum& p, const void* from, int64_t first, int64_t last, float* partial) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const hn::ScalableTag<float> d;
    const auto same = [](auto v) HWY_ATTR { return v; };
    const auto* x = static_cast<const T*>(from);
    const int64_t blocks = ceil_div(p.cols, kRowBlock);
    for (int64_t b = first; b < last; ++b) {
      const int64_t c = b % blocks * kRowBlock;
      partial[b] = sum<8>(d, std::min(kRowBlock, p.cols - c), same, x + b / blocks * p.cols + c);
    }
  });
}

template <class T>
HWY_INLINE void add_row(const T* x, float* to, int64_t n) {  // to[0 .. n) += x[0 .. n)
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < n; c += lanes)
    store(d, hn::Add(load_as_f32(d, to + c, n - c), load_as_f32(d, x + c, n - c)), to + c, n - c);
}

// Blocks [first, last) of at most kColumnRows rows and kColumnWidth columns. Eight rows at a time are added to a row of
// sums that stays in L1, so that memory is read in order. partial: (row blocks, cols).
void sum_column_blocks(const Sum& p, const void* from, int64_t first, int64_t last, float* partial) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const int64_t across = ceil_div(p.cols, kColumnWidth);
    for (int64_t b = first; b < last; ++b) {
      const int64_t column = b % across * kColumnWidth, width = std::min(kColumnWidth, p.cols - column);
      const int64_t row = b / across * kColumnRows, end = std::min(p.rows, row + kColumnRows);
      const T* x = static_cast<const T*>(from) + row * p.cols + column;
      float* to = partial + b / across * p.cols + column;
      std::fill_n(to, width, 0.0f);
      // Eight rows at a time, added as a tree.
      int64_t r = row;
      for (; r + 8 <= end; r += 8, x += 8 * p.cols) {
        int64_t c = 0;
        for (; c + lanes <= width; c += lanes) {
          const T* at = x + c;
          const auto v0 = hn::Add(load_as_f32(d, at), load_as_f32(d, at + p.cols));
          const auto v1 = hn::Add(load_as_f32(d, at + 2 * p.cols), load_as_f32(d, at + 3 * p.cols));
          const auto v2 = hn::Add(load_as_f32(d, at + 4 * p.cols), load_as_f32(d, at + 5 * p.cols));
          const auto v3 = hn::Add(load_as_f32(d, at + 6 * p.cols), load_as_f32(d, at + 7 * p.cols));
          const auto eight = hn::Add(hn::Add(v0, v1), hn::Add(v2, v3));
          hn::StoreU(hn::Add(hn::LoadU(d, to + c), eight), d, to + c);
        }
        if (c < width)
          for (int64_t k = 0; k < 8; ++k) add_row(x + k * p.cols + c, to + c, width - c);
      }
      // The last rows, one by one.
      for (; r < end; ++r, x += p.cols) add_row(x, to, width);
    }
  });
}

// Neighbouring columns at a time, in double: a chain of additions for each of four vectors.
constexpr int kChains = 4;
HWY_INLINE int64_t sums_at_once() { return kChains * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<double>())); }

// to[i] = sum_k partial[i + k * stride] for i < sums_at_once().
HWY_INLINE void sum_columns_at_once(const float* partial, int64_t count, int64_t stride, float* to) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t k = 0; k < count; ++k, partial += stride) {
    const auto at = [&](int64_t n) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(narrow, partial + n * lanes)); };
    a = hn::Add(a, at(0));
    b = hn::Add(b, at(1));
    c = hn::Add(c, at(2));
    e = hn::Add(e, at(3));
  }
  hn::StoreU(hn::DemoteTo(narrow, a), narrow, to);
  hn::StoreU(hn::DemoteTo(narrow, b), narrow, to + lanes);
  hn::StoreU(hn::DemoteTo(narrow, c), narrow, to + 2 * lanes);
  hn::StoreU(hn::DemoteTo(narrow, e), narrow, to + 3 * lanes);
}

// y[i] = sum_k partial[i * step + k * stride] for i < n, k < count: in double, rounded to dtype.
void sum_partials(DType dtype, const float* partial, int64_t n, int64_t count, int64_t step, int64_t stride, void* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(dtype, [&]<class T>() HWY_ATTR {
    HWY_ALIGN float sums[kChains * hn::MaxLanes(d)] = {};
    const auto same = [](auto v) HWY_ATTR { return v; };
    int64_t i = 0;
    if (step == 1)
      for (; i + sums_at_once() <= n; i += sums_at_once()) {
        sum_columns_at_once(partial + i, count, stride, sums);
        map<false>(d, sums_at_once(), same, static_cast<T*>(to) + i, static_cast<const float*>(sums));
      }
    for (; i < n; i += lanes) {
      for (int64_t j = i; j < std::min(n, i + lanes); ++j) {
        double sum = 0;
        for (int64_t k = 0; k < count; ++k) sum += partial[j * step + k * stride];
        sums[j - i] = static_cast<float>(sum);
      }
      store_f32_as(d, hn::Load(d, sums), static_cast<T*>(to) + i, n - i);
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(sum_row_blocks);
HWY_EXPORT(sum_column_blocks);
HWY_EXPORT(sum_partials);

Plan sum_rows(const Sum& p, CpuContext& cpu) {
  const int64_t blocks = ceil_div(p.cols, kRowBlock);
  const int64_t grain = kRowBlock / std::max<int64_t>(1, std::min(p.cols, kRowBlock));
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(p.rows * blocks);
  const auto run = [p, blocks, grain, partial, &cpu](Args t) {
    const void* x = t[Sum::x].data;
    float* sums = t.workspace(partial);
    cpu.parallel_for(p.rows * blocks, grain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(sum_row_blocks)(p, x, first, last, sums);
    });
    HWY_DYNAMIC_DISPATCH(sum_partials)(p.dtype, sums, p.rows, blocks, blocks, 1, t[Sum::y].data);
  };
  return Plan(run).with(std::move(workspace));
}

Plan sum_columns(const Sum& p, CpuContext& cpu) {
  const int64_t blocks = ceil_div(p.rows, kColumnRows), across = ceil_div(p.cols, kColumnWidth);
  const int64_t block_elements = std::min(p.rows, kColumnRows) * std::min(p.cols, kColumnWidth);
  const int64_t grain = kRowBlock / std::max<int64_t>(1, block_elements);
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(blocks * p.cols);
  const auto run = [p, blocks, across, grain, partial, &cpu](Args t) {
    const void* x = t[Sum::x].data;
    float* sums = t.workspace(partial);
    cpu.parallel_for(blocks * across, grain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(sum_column_blocks)(p, x, first, last, sums);
    });
    HWY_DYNAMIC_DISPATCH(sum_partials)(p.dtype, sums, p.cols, blocks, 1, p.cols, t[Sum::y].data);
  };
  return Plan(run).with(std::move(workspace));
}

Plan sum_tuned(const Sum& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (p.axis == 1) return sum_rows(p, cpu);
  if (p.cols == 1) return sum_rows({1, p.rows, p.dtype, 1}, cpu);  // a single column lies in memory as a single row
  return sum_columns(p, cpu);
}
DUET_REGISTER(sum_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
