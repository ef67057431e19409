// SPDX-License-Identifier: Apache-2.0
// layernorm and its backward, with vectors of f32. Forward: threads share the rows. A row is read from memory once; the
// passes for deviations and for the result find it in cache. Of long rows, one is read while the one before is written.
// Backward: the rows are cut into blocks that depend on the shape alone. In a block, one pass over a row forms its two
// means and adds to the block's part of dgamma and dbeta, a second pass forms dx. The parts of the blocks are then
// added in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/layernorm_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/norm/norm_rows-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/norm/part_moments.h"
#include "cpu_ref/norm/row_blocks.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/layernorm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Elements beyond which a row is taken in parts, and elements of a part.
constexpr int64_t kLongRow = 4096, kPart = 1024;

// Rows [first, last) that are longer than L1 holds. While the moments of a row are formed, part by part, the row before
// is written, so that memory is read and written at the same time. In between a row is in L2, if it fits.
template <bool kStream, class T>
void layernorm_long_rows(const LayerNorm& p, Args t, int64_t first, int64_t last) {
  using P = LayerNorm;
  const hn::ScalableTag<float> d;
  const auto *x = t[P::x].as<const T>(), *gamma = t[P::gamma].as<const T>(), *beta = t[P::beta].as<const T>();
  auto* y = t[P::y].as<T>();
  RowMoments before{};
  for (int64_t r = first; r <= last; ++r) {  // the round r == last only writes the last row
    Moments all;
    double total = 0;  // also of infinities, which the moments of parts make a NaN
    for (int64_t c = 0; c < p.cols; c += kPart) {
      const int64_t n = std::min(kPart, p.cols - c), at = r * p.cols + c, at_before = at - p.cols;
      if (r < last) {
        const double part = sum(d, n, Same(), x + at), mean = part / static_cast<double>(n);
        total += part;
        all.add(static_cast<double>(n), mean, sum(d, n, squared_deviation(d, static_cast<float>(mean)), x + at));
      }
      if (r > first)
        map_ahead<kStream>(d, n, normalised(d, before), y + at_before, {x + at + 2 * kPart}, x + at_before, gamma + c,
                           beta + c);
    }
    if (r == last) break;
    const auto n = static_cast<double>(p.cols);
    before = {static_cast<float>(total / n), static_cast<float>(1 / std::sqrt(all.squares / n + p.eps))};
    t[P::mean].as<float>()[r] = before.mean;
    t[P::rstd].as<float>()[r] = before.rstd;
  }
}

// Rows [first, last).
void layernorm_rows(const LayerNorm& p, Args t, int64_t first, int64_t last, bool stream) {
  using P = LayerNorm;
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    if (p.cols > kLongRow)
      return (stream ? layernorm_long_rows<true, T> : layernorm_long_rows<false, T>)(p, t, first, last);
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[P::x].as<const T>() + r * p.cols;
      const RowMoments m =
          layernorm_row(d, p.cols, p.eps, stream, sum_in_runs(d, p.cols, Same(), x), x, t[P::gamma].as<const T>(),
                        t[P::beta].as<const T>(), t[P::y].as<T>() + r * p.cols, {x + p.cols});
      t[P::mean].as<float>()[r] = m.mean;
      t[P::rstd].as<float>()[r] = m.rstd;
    }
  });
  if (stream) hwy::FlushStream();
}

// Backward: rows [first, last), which are one block. part: (2, cols), what the block adds to dgamma and dbeta;
// overwritten.
void layernorm_backward_rows(const LayerNormBackward& p, Args t, int64_t first, int64_t last, bool stream,
                             float* part) {
  using P = LayerNormBackward;
  const hn::ScalableTag<float> d;
  struct Sums {  // of g = dy gamma and of g xhat
    hn::Vec<hn::ScalableTag<float>> g, g_xhat;
  };
  const auto *means = t[P::mean].as<const float>(), *rstds = t[P::rstd].as<const float>();
  float *dgamma = part, *dbeta = part + p.cols;
  std::fill_n(part, 2 * p.cols, 0.0f);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* gamma = t[P::gamma].as<const T>();
    for (int64_t r = first; r < last; ++r) {
      const T *x = t[P::x].as<const T>() + r * p.cols, *dy = t[P::dy].as<const T>() + r * p.cols;
      const auto m = hn::Set(d, means[r]), scale = hn::Set(d, rstds[r]);
      // Sums of g = dy gamma and of g xhat; dgamma and dbeta on the way.
      double sum = 0, dot = 0;
      for (int64_t begin = 0; begin < p.cols; begin += kSumRun) {
        const Sums sums = reduce<2>(
            d, std::min(kSumRun, p.cols - begin), Sums{hn::Zero(d), hn::Zero(d)},
            [&](Sums acc, int64_t i, auto... left) HWY_ATTR {
              const int64_t c = begin + i;
              const auto v = load_as_f32(d, dy + c, left...);
              const auto xhat = hn::Mul(hn::Sub(load_as_f32(d, x + c, left...), m), scale);
              const auto g = hn::Mul(v, load_as_f32(d, gamma + c, left...));
              store_f32_as(d, hn::MulAdd(v, xhat, load_as_f32(d, dgamma + c, left...)), dgamma + c, left...);
              store_f32_as(d, hn::Add(v, load_as_f32(d, dbeta + c, left...)), dbeta + c, left...);
              return Sums{hn::Add(acc.g, g), hn::MulAdd(g, xhat, acc.g_xhat)};
            },
            [](Sums a, Sums b) HWY_ATTR {
              return Sums{hn::Add(a.g, b.g), hn::Add(a.g_xhat, b.g_xhat)};
            });
        sum += hn::GetLane(hn::SumOfLanes(d, sums.g));
        dot += hn::GetLane(hn::SumOfLanes(d, sums.g_xhat));
      }
      // dx.
      const auto n = static_cast<double>(p.cols);
      const auto mean_g = hn::Set(d, static_cast<float>(sum / n)), mean_dot = hn::Set(d, static_cast<float>(dot / n));
      const auto formula = [m, scale, mean_g, mean_dot](auto v, auto dv, auto g) HWY_ATTR {
        const auto xhat = hn::Mul(hn::Sub(v, m), scale);
        return hn::Mul(scale, hn::NegMulAdd(xhat, mean_dot, hn::MulSub(dv, g, mean_g)));
      };
      T* dx = t[P::dx].as<T>() + r * p.cols;
      map_ahead(d, stream, p.cols, formula, dx, {x + p.cols, dy + p.cols}, x, dy, gamma);
    }
  });
  if (stream) hwy::FlushStream();
}

// Backward: columns [first, last) of dgamma and dbeta, from the parts of all blocks. parts: (blocks, 2, cols).
void layernorm_backward_columns(const LayerNormBackward& p, Args t, const float* parts, int64_t blocks, int64_t first,
                                int64_t last) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    sum_parts(d, parts, 2 * p.cols, blocks, first, last, t[LayerNormBackward::dgamma].as<T>());
    sum_parts(d, parts + p.cols, 2 * p.cols, blocks, first, last, t[LayerNormBackward::dbeta].as<T>());
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(layernorm_rows);
HWY_EXPORT(layernorm_backward_rows);
HWY_EXPORT(layernorm_backward_columns);

Plan layernorm_tuned(const LayerNorm& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(layernorm_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(layernorm_tuned);  // cpu.tuned

Plan layernorm_backward_tuned(const LayerNormBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (p.rows > RowBlocks::kMaxRows) return Unsupported{RowBlocks::kTooManyRows};
  const bool stream = beyond_cache(3 * p.rows * p.cols * size_of(p.dtype));
  const RowBlocks blocks(p.rows);
  WorkspaceLayout workspace;
  const auto sums = workspace.add<float>(blocks.count * 2 * p.cols);
  const auto run = [p, stream, blocks, sums, &cpu](Args t) {
    float* const parts = t.workspace(sums);
    cpu.parallel_for(blocks.count, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) HWY_DYNAMIC_DISPATCH(layernorm_backward_rows)
      (p, t, blocks.begin(b), blocks.end(b), stream, parts + b * 2 * p.cols);
    });
    cpu.parallel_for(p.cols, std::max<int64_t>(64, rows_per_chunk(2 * blocks.count)), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(layernorm_backward_columns)(p, t, parts, blocks.count, first, last);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(layernorm_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
