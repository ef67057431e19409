// SPDX-License-Identifier: Apache-2.0
// spmm in blocks of kVectors vectors of columns, block after block, so that what a block reads of b stays in L2 while
// all rows are taken. The sums of a row in a block stay in registers; neighbouring entries have sums of their own,
// because an addition takes longer than a load. Of 4 or 8 columns a vector holds the rows of b of several entries;
// other few columns take a vector of their width. Times a single vector, a row is a dot product with gathered elements
// of b.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/spmm_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "ops/gemm/spmm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Pointers of a run, and the entries of a row within the tensors.
template <class T>
struct SparseRows {
  const T* value;
  const int32_t *col, *row;
  int64_t nnz;
  int64_t first(int64_t i) const { return std::clamp<int64_t>(row[i], 0, nnz); }
  int64_t last(int64_t i) const { return std::clamp<int64_t>(row[i + 1], 0, nnz); }
};

// Columns [j0, j0 + kVectors vectors) of rows [i0, i1); kWhole: all of them exist. kSums: so many entries have sums of
// their own.
template <int kVectors, int kSums, bool kWhole, class D, class T>
void block_of_rows(D d, const Spmm& p, const SparseRows<T>& a, const T* b, T* c, int64_t j0, int64_t i0, int64_t i1) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto columns = static_cast<uint32_t>(p.k);
  constexpr hn::CappedTag<uint32_t, 8> group;  // entries whose columns are checked at once
  constexpr int64_t kGroup = hn::MaxLanes(group);
  const auto end = hn::Set(group, columns);
  const auto at = [&](const T* from, int v) HWY_ATTR {
    if constexpr (kWhole)
      return load_as_f32(d, from + v * lanes);
    else
      return load_as_f32(d, from + v * lanes, std::max<int64_t>(0, p.n - j0 - v * lanes));
  };
  for (int64_t i = i0; i < i1; ++i) {
    hn::Vec<D> sum[kSums][kVectors];
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[s][v] = hn::Zero(d);
    const auto exists = [&](int64_t e) { return static_cast<uint32_t>(a.col[e]) < columns; };
    const auto add = [&](int64_t e, hn::Vec<D>* to) HWY_ATTR {
      const auto col = static_cast<uint32_t>(a.col[e]);
      const auto factor = hn::Set(d, static_cast<float>(a.value[e]));
      const T* from = b + int64_t{col} * p.n + j0;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) to[v] = hn::MulAdd(factor, at(from, v), to[v]);
    };
    int64_t e = a.first(i);
    const int64_t last = a.last(i);
    // Times one vector, checks of the columns take as long as the products: one for a group of entries.
    for (; e + kGroup <= last; e += kGroup) {
      if (HWY_LIKELY(hn::AllTrue(group, hn::Lt(hn::LoadU(group, reinterpret_cast<const uint32_t*>(a.col + e)), end)))) {
#pragma GCC unroll 8
        for (int s = 0; s < kGroup; ++s) add(e + s, sum[s % kSums]);
      } else {
        for (int s = 0; s < kGroup; ++s)
          if (exists(e + s)) add(e + s, sum[0]);
      }
    }
    for (; e + kSums <= last; e += kSums)
#pragma GCC unroll 4
      for (int s = 0; s < kSums; ++s)
        if (exists(e + s)) add(e + s, sum[s]);
    for (; e < last; ++e)
      if (exists(e)) add(e, sum[0]);
    T* to = c + i * p.n + j0;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 4
      for (int s = 1; s < kSums; ++s) sum[0][v] = hn::Add(sum[0][v], sum[s][v]);
      if (const int64_t left = p.n - j0 - v * lanes; kWhole || left > 0)
        store_f32_as(d, sum[0][v], to + v * lanes, kWhole ? lanes : left);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// c[i] for n = kN. A vector holds kEntries rows of b, those of neighbouring entries side by side, and is multiplied by
// the factor of each, of which one load serves all.
template <int kN, class T>
void rows_side_by_side(const Spmm& p, const SparseRows<T>& a, const T* b, T* c, int64_t i0, int64_t i1) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, kN> of_row;
  const hn::RebindToUnsigned<decltype(d)> du;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = hn::MaxLanes(d), kEntries = kLanes / kN;
  const auto columns = static_cast<uint32_t>(p.k);
  const auto end = hn::Set(du, columns);
  HWY_ALIGN int32_t lane[kLanes];
  for (int i = 0; i < kLanes; ++i) lane[i] = i / kN;
  const auto first_factors = hn::Load(hn::RebindToSigned<decltype(d)>(), lane);
  const auto row_of = [&](int64_t e)
                          HWY_ATTR { return load_as_f32(of_row, b + int64_t{static_cast<uint32_t>(a.col[e])} * kN); };
  const auto rows_of = [&](int64_t e) HWY_ATTR {
    if constexpr (kEntries == 2) {
      return hn::Combine(d, row_of(e + 1), row_of(e));
    } else {
      const hn::Half<decltype(d)> half;
      return hn::Combine(d, hn::Combine(half, row_of(e + 3), row_of(e + 2)),
                         hn::Combine(half, row_of(e + 1), row_of(e)));
    }
  };
  for (int64_t i = i0; i < i1; ++i) {
    V sum[kN];
#pragma GCC unroll 8
    for (int q = 0; q < kN; ++q) sum[q] = hn::Zero(d);
    auto rest = hn::Zero(of_row);
    const auto add_one = [&](int64_t e) HWY_ATTR {
      if (static_cast<uint32_t>(a.col[e]) >= columns) return;
      rest = hn::MulAdd(hn::Set(of_row, static_cast<float>(a.value[e])), row_of(e), rest);
    };
    int64_t e = a.first(i);
    const int64_t last = a.last(i);
    for (; e + kLanes <= last; e += kLanes) {
      if (HWY_LIKELY(hn::AllTrue(du, hn::Lt(hn::LoadU(du, reinterpret_cast<const uint32_t*>(a.col + e)), end)))) {
        const V factors = load_as_f32(d, a.value + e);
#pragma GCC unroll 8
        for (int q = 0; q < kN; ++q) {
          const auto at =
              hn::IndicesFromVec(d, hn::Add(first_factors, hn::Set(hn::RebindToSigned<decltype(d)>(), q * kEntries)));
          sum[q] = hn::MulAdd(hn::TableLookupLanes(factors, at), rows_of(e + q * kEntries), sum[q]);
        }
      } else {
        for (int s = 0; s < kLanes; ++s) add_one(e + s);
      }
    }
    for (; e < last; ++e) add_one(e);
#pragma GCC unroll 8
    for (int q = 1; q < kN; ++q) sum[0] = hn::Add(sum[0], sum[q]);
    const hn::Half<decltype(d)> half;
    const auto pairs = hn::Add(hn::LowerHalf(half, sum[0]), hn::UpperHalf(half, sum[0]));
    if constexpr (kEntries == 2)
      rest = hn::Add(rest, pairs);
    else
      rest = hn::Add(rest, hn::Add(hn::LowerHalf(of_row, pairs), hn::UpperHalf(of_row, pairs)));
    store_f32_as(of_row, rest, c + i * kN, kN);
  }
}
#endif

// c[i] for n = 1 in f32: lanes take entries. Entries outside of a have a factor of 0 and read element 0.
void dot_rows(const Spmm& p, const SparseRows<float>& a, const float* b, float* c, int64_t i0, int64_t i1) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto end = hn::Set(di, static_cast<int32_t>(p.k)), none = hn::Set(di, -1);
  for (int64_t i = i0; i < i1; ++i) {
    auto sum = hn::Zero(d);
    for (int64_t e = a.first(i), last = a.last(i); p.k > 0 && e < last; e += lanes) {
      const auto col = load(di, a.col + e, last - e, -1);
      const auto exists = hn::And(hn::Gt(col, none), hn::Lt(col, end));
      const auto from = hn::GatherIndex(d, b, hn::IfThenElseZero(exists, col));
      const auto factor = load(d, a.value + e, last - e, 0.0f);
      sum = hn::IfThenElse(hn::RebindMask(d, exists), hn::MulAdd(factor, from, sum), sum);
    }
    c[i] = hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// Rows [i0, i1) of the block of columns from j0 on.
void spmm_block(const Spmm& p, Args t, int64_t j0, int64_t i0, int64_t i1) {
  const hn::ScalableTag<float> d;
  const auto left = (p.n - j0) / static_cast<int64_t>(hn::Lanes(d));  // whole vectors
  for_float(p.dtype, [&]<class T>() {
    const SparseRows<T> a{t[Spmm::value].as<const T>(), t[Spmm::col].as<const int32_t>(),
                          t[Spmm::row].as<const int32_t>(), p.nnz};
    const T* b = t[Spmm::b].as<const T>();
    T* c = t[Spmm::c].as<T>();
    if constexpr (std::is_same_v<T, float>)
      if (p.n == 1) return dot_rows(p, a, b, c, i0, i1);
    if (left >= 4) return block_of_rows<4, 2, true>(d, p, a, b, c, j0, i0, i1);
    if (p.n - j0 == static_cast<int64_t>(hn::Lanes(d))) return block_of_rows<1, 4, true>(d, p, a, b, c, j0, i0, i1);
    if (left > 0) return block_of_rows<4, 2, false>(d, p, a, b, c, j0, i0, i1);
#if HWY_TARGET != HWY_SCALAR
    constexpr int kLanes = hn::MaxLanes(d);
    if constexpr (kLanes >= 8)
      if (p.n == 4) return rows_side_by_side<4>(p, a, b, c, i0, i1);
    if constexpr (kLanes >= 16)
      if (p.n == 8) return rows_side_by_side<8>(p, a, b, c, i0, i1);
#endif
    const hn::CappedTag<float, 2> two;
    const hn::CappedTag<float, 4> four;
    const hn::CappedTag<float, 8> eight;
    const int64_t few = p.n - j0;
    if (few == static_cast<int64_t>(hn::Lanes(two))) return block_of_rows<1, 4, true>(two, p, a, b, c, j0, i0, i1);
    if (few == static_cast<int64_t>(hn::Lanes(four))) return block_of_rows<1, 4, true>(four, p, a, b, c, j0, i0, i1);
    if (few == static_cast<int64_t>(hn::Lanes(eight))) return block_of_rows<1, 4, true>(eight, p, a, b, c, j0, i0, i1);
    block_of_rows<1, 4, false>(d, p, a, b, c, j0, i0, i1);
  });
}
void block_columns(int64_t* to) { *to = 4 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(spmm_block);
HWY_EXPORT(block_columns);

Plan spmm_tuned(const Spmm& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  int64_t width = 0;
  HWY_DYNAMIC_DISPATCH(block_columns)(&width);
  // Tasks of some rows of one block of columns; the tasks of a block follow each other.
  constexpr int64_t kTaskProducts = 1 << 16;
  const int64_t per_row = (p.nnz / std::max<int64_t>(1, p.m) + 1) * std::min(width, p.n);
  const int64_t rows = std::max<int64_t>(1, kTaskProducts / std::max<int64_t>(1, per_row));
  const int64_t tasks = ceil_div(p.m, rows), blocks = ceil_div(p.n, width);
  return [=, &cpu](Args t) {
    cpu.parallel_for(tasks * blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t i = task % tasks * rows;
        HWY_DYNAMIC_DISPATCH(spmm_block)(p, t, task / tasks * width, i, std::min(p.m, i + rows));
      }
    });
  };
}
DUET_REGISTER(spmm_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
