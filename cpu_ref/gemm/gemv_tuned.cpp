// SPDX-License-Identifier: Apache-2.0
// gemv as fast as memory delivers a, which is read once. Threads share pieces of a, which do not depend on their
// number:
//   Rows along x (trans = 0): a piece is some rows, or a part of each of a few long rows. Four rows at a time, so that
//   four streams are read and x is loaded once for them; each sum has two vectors in registers.
//   Rows along y (trans = 1): a piece is kGemvColumns columns of some rows. Eight rows at a time, four of short ones,
//   are added to its sums, which stay in L1.
// Where pieces divide the sums, each leaves its sums in the workspace, and these are added in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/gemv_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/gemv_pieces.h"
#include "cpu_ref/pairs-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/gemm/gemv.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
constexpr int64_t kRows = 4, kShortRow = 256;

// Two vectors of terms at p, in an order that depends on T alone: of bf16 the even ones and the odd ones, which come
// apart by two operations.
template <class D, class T>
HWY_INLINE void load_terms(D d, const T* p, hn::Vec<D>& first, hn::Vec<D>& second) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if constexpr (std::is_same_v<T, bf16>) {
    load_pairs(d, p, 2 * lanes, first, second);
  } else {
    first = load_as_f32(d, p);
    second = load_as_f32(d, p + lanes);
  }
}

// sum[r] = the products of rows a + r * step (kRows of them, the last one repeated where there are fewer) with x.
template <class T>
void dot_rows(const T* a, int64_t step, int64_t rows, const T* x, int64_t count, float* sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* row[kRows];
  for (int64_t r = 0; r < kRows; ++r) row[r] = a + std::min(r, rows - 1) * step;
  hn::Vec<decltype(d)> even[kRows], odd[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    even[r] = hn::Zero(d);
    odd[r] = hn::Zero(d);
  }
  int64_t j = 0;
  for (; j + 2 * lanes <= count; j += 2 * lanes) {
    hn::Vec<decltype(d)> x0, x1, a0, a1;
    load_terms(d, x + j, x0, x1);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      load_terms(d, row[r] + j, a0, a1);
      even[r] = hn::MulAdd(a0, x0, even[r]);
      odd[r] = hn::MulAdd(a1, x1, odd[r]);
    }
  }
  for (; j < count; j += lanes) {
    const auto x0 = load_as_f32(d, x + j, count - j);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) even[r] = hn::MulAdd(load_as_f32(d, row[r] + j, count - j), x0, even[r]);
  }
  for (int64_t r = 0; r < rows; ++r) sum[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[r], odd[r])));
}

// sum[i] += x[r] * a[r * step + i] for i < count and `rows` rows, at most kAdded. ahead: as many rows after these go
// into L2, which no hardware prefetcher does, since it does not see them from the end of these.
template <int kAdded, class T>
void add_rows(const T* a, int64_t step, int64_t rows, const T* x, int64_t count, bool ahead, float* sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (rows < kAdded) {
    if constexpr (kAdded > 4)
      if (rows >= 4) {
        add_rows<4>(a, step, 4, x, count, false, sum);
        return add_rows<4>(a + 4 * step, step, rows - 4, x + 4, count, false, sum);
      }
    for (int64_t r = 0; r < rows; ++r) {
      const auto factor = hn::Set(d, static_cast<float>(x[r]));
      for (int64_t i = 0; i < count; i += lanes)
        store(d, hn::MulAdd(factor, load_as_f32(d, a + r * step + i, count - i), load(d, sum + i, count - i, 0.0f)),
              sum + i, count - i);
    }
    return;
  }
  hn::Vec<decltype(d)> factor[kAdded];
  const T* row[kAdded];
#pragma GCC unroll 8
  for (int r = 0; r < kAdded; ++r) {
    factor[r] = hn::Set(d, static_cast<float>(x[r]));
    row[r] = a + r * step;
  }
  const auto add = [&](int64_t i, int64_t left) HWY_ATTR {
    auto even = load(d, sum + i, left, 0.0f), odd = hn::Zero(d);
#pragma GCC unroll 8
    for (int r = 0; r < kAdded; r += 2) {
      even = hn::MulAdd(factor[r], load_as_f32(d, row[r] + i, left), even);
      odd = hn::MulAdd(factor[r + 1], load_as_f32(d, row[r + 1] + i, left), odd);
    }
    store(d, hn::Add(even, odd), sum + i, left);
  };
  int64_t i = 0;
  if (ahead) {
    for (; i + lanes <= count; i += lanes) {
#pragma GCC unroll 8
      for (int r = 0; r < kAdded; ++r) __builtin_prefetch(row[r] + kAdded * step + i, 0, 2);
      add(i, lanes);
    }
  } else {
    for (; i + lanes <= count; i += lanes) add(i, lanes);
  }
  if (i < count) add(i, count - i);
}

template <class T>
void run_piece(const Gemv& p, const GemvPiece& piece, const T* a, const T* x, T* y) {
  const auto [i0, i1, j0, j1, to, ahead] = piece;
  HWY_ALIGN float sum[kGemvColumns];
  if (!p.trans) {
    for (int64_t i = i0; i < i1; i += kRows) {
      const int64_t rows = std::min(kRows, i1 - i);
      dot_rows(a + i * p.n + j0, p.n, rows, x + j0, j1 - j0, sum);
      for (int64_t r = 0; r < rows; ++r)
        if (to)
          to[i + r] = sum[r];
        else
          y[i + r] = T(sum[r]);
    }
    return;
  }
  const hn::ScalableTag<float> d;
  std::fill_n(sum, i1 - i0, 0.0f);
  const auto add = [&]<int kAdded>() {
    for (int64_t j = j0; j < j1; j += kAdded)
      add_rows<kAdded>(a + j * p.m + i0, p.m, std::min<int64_t>(kAdded, j1 - j), x + j, i1 - i0,
                       ahead && j + 2 * kAdded <= j1, sum);
  };
  // Eight factors take longer to load than a short row to add.
  if (i1 - i0 < kShortRow)
    add.template operator()<4>();
  else
    add.template operator()<8>();
  const auto same = [](auto v) HWY_ATTR { return v; };
  if (to)
    std::copy_n(sum, i1 - i0, to + i0);
  else
    map<false>(d, i1 - i0, same, y + i0, static_cast<const float*>(sum));
}

void gemv_piece(const Gemv& p, const GemvPiece& piece, Args t) {
  for_float(p.dtype, [&]<class T>() {
    run_piece(p, piece, t[Gemv::a].as<const T>(), t[Gemv::x].as<const T>(), t[Gemv::y].as<T>());
  });
}

// y = the sums of `parts` pieces, in order.
void add_parts(const Gemv& p, const float* sums, int64_t parts, int64_t first, int64_t last, Args t) {
  for_float(p.dtype, [&]<class T>() {
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    T* y = t[Gemv::y].as<T>();
    for (int64_t i = first; i < last; i += lanes) {
      auto sum = hn::Zero(d);
      for (int64_t part = 0; part < parts; ++part) sum = hn::Add(sum, load(d, sums + part * p.m + i, last - i, 0.0f));
      store_f32_as(d, sum, y + i, last - i);
    }
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(gemv_piece);
HWY_EXPORT(add_parts);

Plan gemv_tuned(const Gemv& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const GemvPieces cuts(p);
  WorkspaceLayout workspace;
  const auto partial = workspace.add<float>(cuts.parts > 1 ? cuts.parts * p.m : 0);
  const bool ahead = p.trans && p.m > kGemvColumns && beyond_cache(p.m * p.n * size_of(p.dtype));
  auto run = [p, cuts, partial, ahead, &cpu](Args t) {
    float* sums = t.workspace(partial);
    cpu.parallel_for(cuts.down * cuts.parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t i = piece / cuts.parts * cuts.rows, part = piece % cuts.parts, j = part * cuts.terms;
        HWY_DYNAMIC_DISPATCH(gemv_piece)
        (p,
         {i, std::min(p.m, i + cuts.rows), j, std::min(p.n, j + cuts.terms),
          cuts.parts > 1 ? sums + part * p.m : nullptr, ahead},
         t);
      }
    });
    if (cuts.parts > 1)
      cpu.parallel_for(p.m, kChunkElements / cuts.parts, [&](int64_t first, int64_t last) {
        HWY_DYNAMIC_DISPATCH(add_parts)(p, sums, cuts.parts, first, last, t);
      });
  };
  return Plan(std::move(run)).with(cuts.parts > 1 ? "sums in parts" : "whole sums", std::move(workspace));
}
DUET_REGISTER(gemv_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
