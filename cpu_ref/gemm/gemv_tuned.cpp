// SPDX-License-Identifier: Apache-2.0
// gemv as fast as memory delivers a, which is read once. Threads share pieces of a, which do not depend on their
// number:
//   Rows along x (trans = 0): a piece is some rows, or a part of each of a few long rows. Four rows at a time, so that
//   four streams are read and x is loaded once for them; each sum has two vectors in registers.
//   Rows along y (trans = 1): a piece is kGemvColumns columns of some rows. Four rows at a time are added to its sums,
//   which stay in L1.
// Where pieces divide the sums, each leaves its sums in the workspace, and these are added in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/gemv_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/gemv_pieces.h"
#include "ops/gemm/gemv.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {
constexpr int64_t kRows = 4;

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
    const auto x0 = load_as_f32(d, x + j), x1 = load_as_f32(d, x + j + lanes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      even[r] = hn::MulAdd(load_as_f32(d, row[r] + j), x0, even[r]);
      odd[r] = hn::MulAdd(load_as_f32(d, row[r] + j + lanes), x1, odd[r]);
    }
  }
  for (; j < count; j += lanes) {
    const auto x0 = load_as_f32(d, x + j, count - j);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) even[r] = hn::MulAdd(load_as_f32(d, row[r] + j, count - j), x0, even[r]);
  }
  for (int64_t r = 0; r < rows; ++r) sum[r] = hn::GetLane(hn::SumOfLanes(d, hn::Add(even[r], odd[r])));
}

// sum[i] += x[r] * a[r * step + i] for i < count and `rows` rows, at most kRows.
template <class T>
void add_rows(const T* a, int64_t step, int64_t rows, const T* x, int64_t count, float* sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (rows < kRows) {
    for (int64_t r = 0; r < rows; ++r) {
      const auto factor = hn::Set(d, static_cast<float>(x[r]));
      for (int64_t i = 0; i < count; i += lanes)
        store(d, hn::MulAdd(factor, load_as_f32(d, a + r * step + i, count - i), load(d, sum + i, count - i, 0.0f)),
              sum + i, count - i);
    }
    return;
  }
  const auto x0 = hn::Set(d, static_cast<float>(x[0])), x1 = hn::Set(d, static_cast<float>(x[1]));
  const auto x2 = hn::Set(d, static_cast<float>(x[2])), x3 = hn::Set(d, static_cast<float>(x[3]));
  const T *a1 = a + step, *a2 = a1 + step, *a3 = a2 + step;
  const auto add = [&](int64_t i, int64_t left) HWY_ATTR {
    const auto v01 = hn::MulAdd(x1, load_as_f32(d, a1 + i, left), hn::Mul(x0, load_as_f32(d, a + i, left)));
    const auto v23 = hn::MulAdd(x3, load_as_f32(d, a3 + i, left), hn::Mul(x2, load_as_f32(d, a2 + i, left)));
    store(d, hn::Add(load(d, sum + i, left, 0.0f), hn::Add(v01, v23)), sum + i, left);
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) add(i, lanes);
  if (i < count) add(i, count - i);
}

template <class T>
void run_piece(const Gemv& p, const GemvPiece& piece, const T* a, const T* x, T* y) {
  const auto [i0, i1, j0, j1, to] = piece;
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
  for (int64_t j = j0; j < j1; j += kRows)
    add_rows(a + j * p.m + i0, p.m, std::min(kRows, j1 - j), x + j, i1 - i0, sum);
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
    T* y = t[Gemv::y].as<T>();
    for (int64_t i = first; i < last; ++i) {
      float sum = 0;
      for (int64_t part = 0; part < parts; ++part) sum += sums[part * p.m + i];
      y[i] = T(sum);
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
  auto run = [p, cuts, partial, &cpu](Args t) {
    float* sums = t.workspace(partial);
    cpu.parallel_for(cuts.down * cuts.parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t i = piece / cuts.parts * cuts.rows, part = piece % cuts.parts, j = part * cuts.terms;
        HWY_DYNAMIC_DISPATCH(gemv_piece)
        (p,
         {i, std::min(p.m, i + cuts.rows), j, std::min(p.n, j + cuts.terms),
          cuts.parts > 1 ? sums + part * p.m : nullptr},
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
