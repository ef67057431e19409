// SPDX-License-Identifier: Apache-2.0
// max and argmax over rows or over columns, with vectors of f32. The tensor is cut into blocks (sum_blocks.h), which
// threads share; the results of the blocks are merged in order.
//   Rows: the largest of each block is found first; argmax then searches for it in the one block that has it.
//   Columns: a row of largest elements, and of their places, stays in L1 while the rows of a block are read in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/reduction/max_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/denormals.h"
#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/exp-inl.h"
#include "cpu_ref/reduce-inl.h"
#include "cpu_ref/reduction/sum_blocks.h"
#include "ops/reduction/max.h"

#ifndef DUET_CPU_REF_MAX_JOB_
#define DUET_CPU_REF_MAX_JOB_
namespace duet {
struct MaxJob {  // of max or argmax, which have the same attributes
  int64_t rows, cols;
  DType dtype;
  const void* x;
  void* y;         // of max, else null
  int32_t* index;  // of argmax, else null
};
}  // namespace duet
#endif

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using V32 = hn::Vec<F32>;

// The largest of n elements; NaN where there is one.
template <class T>
HWY_INLINE float largest_of(const T* x, int64_t n) {
  const F32 d;
  struct Largest {
    V32 max, nan;  // nan: one that was met, else 0
  };
  const auto lowest = hn::Set(d, -INFINITY);
  const Largest all = reduce(
      d, n, Largest{lowest, hn::Zero(d)},
      [&](Largest acc, int64_t i, auto... left) HWY_ATTR {
        const auto v = existing(d, load_as_f32(d, x + i, left...), lowest, left...);
        return Largest{max_or_nan(v, acc.max), hn::IfThenElse(hn::IsNaN(v), v, acc.nan)};
      },
      [&](Largest a, Largest b) HWY_ATTR {
        return Largest{hn::Max(a.max, b.max), hn::IfThenElse(hn::IsNaN(a.nan), a.nan, b.nan)};
      });
  return hn::AllFalse(d, hn::IsNaN(all.nan)) ? hn::GetLane(hn::MaxOfLanes(d, all.max)) : NAN;
}

// The place of the first element that equals `value`, or of the first NaN where value is one. There is one.
template <class T>
HWY_INLINE int64_t find_first(const T* x, int64_t n, float value) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool is_nan = value != value;
  const auto wanted = hn::Set(d, value);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto v = load_as_f32(d, x + i, n - i, is_nan ? 0 : NAN);
    const auto at = hn::FindFirstTrue(d, is_nan ? hn::IsNaN(v) : hn::Eq(v, wanted));
    if (at >= 0) return i + static_cast<int64_t>(at);
  }
  return 0;
}

// Blocks [first, last) of rows: best[b] = the largest of part b % blocks of row b / blocks. Where a row is one block,
// its result is written as well.
void max_row_blocks(const MaxJob& job, int64_t first, int64_t last, float* best) {
  const ScopedKeepDenormals keep;  // they rank by their values, here and below
  for_float(job.dtype, [&]<class T>() HWY_ATTR {
    const int64_t blocks = ceil_div(job.cols, kRowBlock);
    const hn::CappedTag<float, 1> one;
    for (int64_t b = first; b < last; ++b) {
      const int64_t c = b % blocks * kRowBlock, n = std::min(kRowBlock, job.cols - c);
      const T* x = static_cast<const T*>(job.x) + b / blocks * job.cols + c;
      const float value = largest_of(x, n);
      if (blocks > 1) {
        best[b] = value;
      } else if (job.index != nullptr) {
        job.index[b] = static_cast<int32_t>(find_first(x, n, value));
      } else {
        store_f32_as(one, hn::Set(one, value), static_cast<T*>(job.y) + b);
      }
    }
  });
}

// The result of a row of several blocks.
void max_of_blocks(const MaxJob& job, int64_t row, const float* best) {
  const ScopedKeepDenormals keep;
  for_float(job.dtype, [&]<class T>() HWY_ATTR {
    const int64_t blocks = ceil_div(job.cols, kRowBlock);
    best += row * blocks;
    const float value = largest_of(best, blocks);
    if (job.index == nullptr) {
      const hn::CappedTag<float, 1> one;
      store_f32_as(one, hn::Set(one, value), static_cast<T*>(job.y) + row);
      return;
    }
    const int64_t c = find_first(best, blocks, value) * kRowBlock;
    const T* x = static_cast<const T*>(job.x) + row * job.cols + c;
    job.index[row] = static_cast<int32_t>(c + find_first(x, std::min(kRowBlock, job.cols - c), value));
  });
}

// Whether v ranks above `best`: it is larger or a NaN, and best is not.
HWY_INLINE hn::Mask<F32> ranks_above(V32 v, V32 best) { return hn::AndNot(hn::IsNaN(best), hn::Not(hn::Le(v, best))); }

// Merges row `row` of a block, [0, n), into the largest elements so far, and their places.
template <bool kIndexed, class T, class Place>
HWY_INLINE void merge_row(const T* x, int64_t n, const Place& place, float* best, int32_t* index) {
  const F32 d;
  const I32 di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < n; c += lanes) {
    const auto v = load_as_f32(d, x + c, n - c), b = load_as_f32(d, best + c, n - c);
    const auto take = ranks_above(v, b);
    store(d, hn::IfThenElse(take, v, b), best + c, n - c);
    if constexpr (kIndexed)
      store(di, hn::IfThenElse(hn::RebindMask(di, take), place(c), load(di, index + c, n - c, 0)), index + c, n - c);
  }
}

// Four rows from `row` on at a time, so that the largest so far are loaded and stored once for all of them.
template <bool kIndexed, class T>
HWY_INLINE void merge_four_rows(const T* x, int64_t pitch, int64_t n, int32_t row, float* best, int32_t* index) {
  const F32 d;
  const I32 di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    auto b = hn::LoadU(d, best + c);
    [[maybe_unused]] auto at = hn::Zero(di);
    if constexpr (kIndexed) at = hn::LoadU(di, index + c);
#pragma GCC unroll 4
    for (int32_t k = 0; k < 4; ++k) {
      const auto v = load_as_f32(d, x + k * pitch + c);
      const auto take = ranks_above(v, b);
      b = hn::IfThenElse(take, v, b);
      if constexpr (kIndexed) at = hn::IfThenElse(hn::RebindMask(di, take), hn::Set(di, row + k), at);
    }
    hn::StoreU(b, d, best + c);
    if constexpr (kIndexed) hn::StoreU(at, di, index + c);
  }
  if (c == n) return;
  for (int32_t k = 0; k < 4; ++k)
    merge_row<kIndexed>(
        x + k * pitch + c, n - c, [&](int64_t) HWY_ATTR { return hn::Set(di, row + k); }, best + c, index + c);
}

// Blocks [first, last) of at most kColumnRows rows and kColumnWidth columns. best, index: (row blocks, cols).
template <bool kIndexed>
void max_column_blocks_of(const MaxJob& job, int64_t first, int64_t last, float* best, int32_t* index) {
  const I32 di;
  for_float(job.dtype, [&]<class T>() HWY_ATTR {
    const int64_t across = ceil_div(job.cols, kColumnWidth);
    for (int64_t b = first; b < last; ++b) {
      const int64_t column = b % across * kColumnWidth, width = std::min(kColumnWidth, job.cols - column);
      const int64_t row = b / across * kColumnRows, end = std::min(job.rows, row + kColumnRows);
      const T* x = static_cast<const T*>(job.x) + row * job.cols + column;
      float* to = best + b / across * job.cols + column;
      int32_t* at = kIndexed ? index + b / across * job.cols + column : nullptr;
      std::fill_n(to, width, -INFINITY);
      if (kIndexed) std::fill_n(at, width, static_cast<int32_t>(row));  // the place where all are -inf
      int64_t r = row;
      for (; r + 4 <= end; r += 4, x += 4 * job.cols)
        merge_four_rows<kIndexed>(x, job.cols, width, static_cast<int32_t>(r), to, at);
      for (; r < end; ++r, x += job.cols)
        merge_row<kIndexed>(
            x, width, [&](int64_t) HWY_ATTR { return hn::Set(di, static_cast<int32_t>(r)); }, to, at);
    }
  });
}
void max_column_blocks(const MaxJob& job, int64_t first, int64_t last, float* best, int32_t* index) {
  const ScopedKeepDenormals keep;
  (job.index != nullptr ? max_column_blocks_of<true> : max_column_blocks_of<false>)(job, first, last, best, index);
}

// Merges the blocks of the columns [first, last) into those of the first block, and writes the results.
void max_of_column_blocks(const MaxJob& job, int64_t first, int64_t last, float* best, int32_t* index) {
  const ScopedKeepDenormals keep;
  const F32 d;
  const I32 di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n = last - first;
  for (int64_t k = 1; k < ceil_div(job.rows, kColumnRows); ++k) {
    const int64_t at = k * job.cols + first;
    if (job.index == nullptr) {
      merge_row<false>(best + at, n, 0, best + first, index);
    } else {
      const auto place = [&](int64_t c) HWY_ATTR { return load(di, index + at + c, n - c, 0); };
      merge_row<true>(best + at, n, place, best + first, index + first);
    }
  }
  if (job.index != nullptr) {
    std::copy_n(index + first, n, job.index + first);
    return;
  }
  for_float(job.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t c = first; c < last; c += lanes)
      store_f32_as(d, load_as_f32(d, best + c, last - c), static_cast<T*>(job.y) + c, last - c);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(max_row_blocks);
HWY_EXPORT(max_of_blocks);
HWY_EXPORT(max_column_blocks);
HWY_EXPORT(max_of_column_blocks);

MaxJob job_of(const Max& p, Args t) { return {p.rows, p.cols, p.dtype, t[Max::x].data, t[Max::y].data, nullptr}; }
MaxJob job_of(const ArgMax& p, Args t) {
  return {p.rows, p.cols, p.dtype, t[ArgMax::x].data, nullptr, t[ArgMax::index].as<int32_t>()};
}

// P: Max or ArgMax.
template <class P>
Plan rows_plan(const P& p, CpuContext& cpu) {
  const int64_t blocks = ceil_div(p.cols, kRowBlock);
  const int64_t grain = kRowBlock / std::max<int64_t>(1, std::min(p.cols, kRowBlock));
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(blocks > 1 ? p.rows * blocks : 0);
  const auto run = [p, blocks, grain, partial, &cpu](Args t) {
    const MaxJob job = job_of(p, t);
    float* best = t.workspace(partial);
    cpu.parallel_for(p.rows * blocks, grain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(max_row_blocks)(job, first, last, best);
    });
    if (blocks == 1) return;
    for (int64_t row = 0; row < p.rows; ++row) HWY_DYNAMIC_DISPATCH(max_of_blocks)(job, row, best);
  };
  return Plan(run).with(std::move(workspace));
}

template <class P>
Plan columns_plan(const P& p, CpuContext& cpu) {
  const int64_t blocks = ceil_div(p.rows, kColumnRows), across = ceil_div(p.cols, kColumnWidth);
  const int64_t block_elements = std::min(p.rows, kColumnRows) * std::min(p.cols, kColumnWidth);
  const int64_t grain = kRowBlock / std::max<int64_t>(1, block_elements);
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(blocks * p.cols);
  const auto places = workspace.add<int32_t>(std::is_same_v<P, ArgMax> ? blocks * p.cols : 0);
  const auto run = [p, blocks, across, grain, partial, places, &cpu](Args t) {
    const MaxJob job = job_of(p, t);
    float* best = t.workspace(partial);
    int32_t* index = t.workspace(places);
    cpu.parallel_for(blocks * across, grain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(max_column_blocks)(job, first, last, best, index);
    });
    cpu.parallel_for(p.cols, kRowBlock / std::max<int64_t>(1, blocks), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(max_of_column_blocks)(job, first, last, best, index);
    });
  };
  return Plan(run).with(std::move(workspace));
}

template <class P>
Plan plan(const P& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (p.axis == 1) return rows_plan(p, cpu);
  if (p.cols == 1) return rows_plan(P{1, p.rows, p.dtype, 1}, cpu);  // a single column lies in memory as a row
  return columns_plan(p, cpu);
}

Plan max_tuned(const Max& p, CpuContext& cpu) { return plan(p, cpu); }
DUET_REGISTER(max_tuned);  // cpu.tuned

Plan argmax_tuned(const ArgMax& p, CpuContext& cpu) { return plan(p, cpu); }
DUET_REGISTER(argmax_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
