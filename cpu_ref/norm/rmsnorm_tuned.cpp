// SPDX-License-Identifier: Apache-2.0
// rmsnorm and its backward, with vectors of f32. Forward: threads share the rows; the pass for the result finds the row
// in cache. Backward: the rows are cut into blocks that depend on the shape alone. In a block, one pass over a row
// forms the mean of g xhat and adds to the block's part of dgamma, a second pass forms dx. The parts of the blocks are
// then added in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/rmsnorm_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/norm/norm_rows-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/norm/row_blocks.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/rmsnorm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Rows [first, last).
void rmsnorm_rows(const RmsNorm& p, Args t, int64_t first, int64_t last, bool stream) {
  using P = RmsNorm;
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[P::x].as<const T>() + r * p.cols;
      t[P::rstd].as<float>()[r] = rmsnorm_row(d, p.cols, p.eps, stream, sum_in_runs(d, p.cols, Square(), x), x,
                                              t[P::gamma].as<const T>(), t[P::y].as<T>() + r * p.cols, {x + p.cols});
    }
  });
  if (stream) hwy::FlushStream();
}

// Backward: rows [first, last), which are one block. part: (cols), what the block adds to dgamma; overwritten.
void rmsnorm_backward_rows(const RmsNormBackward& p, Args t, int64_t first, int64_t last, bool stream, float* part) {
  using P = RmsNormBackward;
  const hn::ScalableTag<float> d;
  const auto n = static_cast<double>(p.cols);
  const auto* rstds = t[P::rstd].as<const float>();
  std::fill_n(part, p.cols, 0.0f);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* gamma = t[P::gamma].as<const T>();
    for (int64_t r = first; r < last; ++r) {
      const T *x = t[P::x].as<const T>() + r * p.cols, *dy = t[P::dy].as<const T>() + r * p.cols;
      const auto scale = hn::Set(d, rstds[r]);
      // The sum of g xhat, where g = dy gamma; dgamma on the way.
      double dot = 0;
      for (int64_t begin = 0; begin < p.cols; begin += kSumRun)
        dot += hn::GetLane(hn::SumOfLanes(
            d, reduce(
                   d, std::min(kSumRun, p.cols - begin), hn::Zero(d),
                   [&](auto acc, int64_t i, auto... left) HWY_ATTR {
                     const int64_t c = begin + i;
                     const auto v = load_as_f32(d, dy + c, left...);
                     const auto term = hn::Mul(v, hn::Mul(load_as_f32(d, x + c, left...), scale));
                     store_f32_as(d, hn::Add(term, load_as_f32(d, part + c, left...)), part + c, left...);
                     return hn::MulAdd(term, load_as_f32(d, gamma + c, left...), acc);
                   },
                   [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); })));
      // dx.
      const auto mean = hn::Set(d, static_cast<float>(dot / n));
      const auto formula = [scale, mean](auto v, auto dv, auto g) HWY_ATTR {
        return hn::Mul(scale, hn::NegMulAdd(hn::Mul(v, scale), mean, hn::Mul(dv, g)));
      };
      T* dx = t[P::dx].as<T>() + r * p.cols;
      map_ahead(d, stream, p.cols, formula, dx, {x + p.cols, dy + p.cols}, x, dy, gamma);
    }
  });
  if (stream) hwy::FlushStream();
}

// Backward: columns [first, last) of dgamma, from the parts of all blocks. parts: (blocks, cols).
void rmsnorm_backward_columns(const RmsNormBackward& p, Args t, const float* parts, int64_t blocks, int64_t first,
                              int64_t last) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    sum_parts(d, parts, p.cols, blocks, first, last, t[RmsNormBackward::dgamma].as<T>());
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(rmsnorm_rows);
HWY_EXPORT(rmsnorm_backward_rows);
HWY_EXPORT(rmsnorm_backward_columns);

Plan rmsnorm_tuned(const RmsNorm& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(rmsnorm_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(rmsnorm_tuned);  // cpu.tuned

Plan rmsnorm_backward_tuned(const RmsNormBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (p.rows > RowBlocks::kMaxRows) return Unsupported{RowBlocks::kTooManyRows};
  const bool stream = beyond_cache(3 * p.rows * p.cols * size_of(p.dtype));
  const RowBlocks blocks(p.rows);
  WorkspaceLayout workspace;
  const auto sums = workspace.add<float>(blocks.count * p.cols);
  const auto run = [p, stream, blocks, sums, &cpu](Args t) {
    float* const parts = t.workspace(sums);
    cpu.parallel_for(blocks.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) HWY_DYNAMIC_DISPATCH(rmsnorm_backward_rows)
      (p, t, blocks.begin(b), blocks.end(b), stream, parts + b * p.cols);
    });
    cpu.parallel_for(p.cols, std::max<int64_t>(64, rows_per_chunk(blocks.count)), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(rmsnorm_backward_columns)(p, t, parts, blocks.count, first, last);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(rmsnorm_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
