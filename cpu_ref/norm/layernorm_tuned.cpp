// SPDX-License-Identifier: Apache-2.0
// Threads share the rows. A row is read from memory once; sum, deviations and result are passes over cache. Backward: one
// pass for the row's means and its part of dgamma and dbeta, one for dx; rows are dealt in blocks that depend on the shape
// alone, whose parts are added in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/layernorm_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cmath>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/layernorm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

inline constexpr int64_t kTerms = 4096;  // added in f32, by four accumulators; more meet in double

// sum_i f(x[i]); f of the lanes beyond the end must not count: it gets the vector and the lanes left.
template <class T, class F>
HWY_INLINE double sum_over(const T* x, int64_t n, const F& f) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  double total = 0;
  for (int64_t first = 0; first < n; first += kTerms) {
    const int64_t last = std::min(n, first + kTerms);
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = first;
    for (; i + 4 * lanes <= last; i += 4 * lanes) {
      s0 = hn::Add(s0, f(load_as_f32(d, x + i)));
      s1 = hn::Add(s1, f(load_as_f32(d, x + i + lanes)));
      s2 = hn::Add(s2, f(load_as_f32(d, x + i + 2 * lanes)));
      s3 = hn::Add(s3, f(load_as_f32(d, x + i + 3 * lanes)));
    }
    for (; i + lanes <= last; i += lanes) s0 = hn::Add(s0, f(load_as_f32(d, x + i)));
    if (i < last) {
      const auto here = hn::FirstN(d, static_cast<size_t>(last - i));
      s1 = hn::Add(s1, hn::IfThenElseZero(here, f(load_as_f32(d, x + i, last - i))));
    }
    total += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  }
  return total;
}

void layernorm_rows(const LayerNorm& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const auto n = static_cast<double>(std::max<int64_t>(1, p.cols));
  auto *means = t[LayerNorm::mean].as<float>(), *rstds = t[LayerNorm::rstd].as<float>();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto *gamma = t[LayerNorm::gamma].as<const T>(), *beta = t[LayerNorm::beta].as<const T>();
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[LayerNorm::x].as<const T>() + r * p.cols;
      T* y = t[LayerNorm::y].as<T>() + r * p.cols;
      const auto mean = static_cast<float>(sum_over(x, p.cols, [](auto v) HWY_ATTR { return v; }) / n);
      const auto m = hn::Set(d, mean);
      const auto square = [m](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, m);
        return hn::Mul(deviation, deviation);
      };
      const auto rstd = static_cast<float>(1 / std::sqrt(sum_over(x, p.cols, square) / n + p.eps));
      const auto scale = hn::Set(d, rstd);
      const auto formula = [m, scale](auto v, auto g, auto b)
                               HWY_ATTR { return hn::MulAdd(hn::Mul(hn::Sub(v, m), scale), g, b); };
      stream ? map<true>(d, p.cols, formula, y, x, gamma, beta) : map<false>(d, p.cols, formula, y, x, gamma, beta);
      means[r] = mean;
      rstds[r] = rstd;
    }
  });
  if (stream) hwy::FlushStream();
}

// Rows [first, last); part: (2, cols), the block's share of dgamma and dbeta, is overwritten.
void layernorm_backward_rows(const LayerNormBackward& p, Args t, int64_t first, int64_t last, bool stream,
                             float* part) {
  using P = LayerNormBackward;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto *means = t[P::mean].as<const float>(), *rstds = t[P::rstd].as<const float>();
  float *dgamma = part, *dbeta = part + p.cols;
  std::fill_n(part, 2 * p.cols, 0.0f);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* gamma = t[P::gamma].as<const T>();
    for (int64_t r = first; r < last; ++r) {
      const T *x = t[P::x].as<const T>() + r * p.cols, *dy = t[P::dy].as<const T>() + r * p.cols;
      const auto m = hn::Set(d, means[r]), scale = hn::Set(d, rstds[r]);
      double sum = 0, dot = 0;
      for (int64_t begin = 0; begin < p.cols; begin += kTerms) {
        const int64_t end = std::min(p.cols, begin + kTerms);
        auto s0 = hn::Zero(d), s1 = s0, p0 = s0, p1 = s0;
        int64_t c = begin;
        const auto step = [&](auto& s, auto& q, int64_t at) HWY_ATTR {
          const auto v = load_as_f32(d, dy + at), xhat = hn::Mul(hn::Sub(load_as_f32(d, x + at), m), scale);
          const auto g = hn::Mul(v, load_as_f32(d, gamma + at));
          s = hn::Add(s, g);
          q = hn::MulAdd(g, xhat, q);
          hn::StoreU(hn::MulAdd(v, xhat, hn::LoadU(d, dgamma + at)), d, dgamma + at);
          hn::StoreU(hn::Add(v, hn::LoadU(d, dbeta + at)), d, dbeta + at);
        };
        for (; c + 2 * lanes <= end; c += 2 * lanes) {
          step(s0, p0, c);
          step(s1, p1, c + lanes);
        }
        for (; c < end; c += lanes) {
          const int64_t left = end - c;
          const auto v = load_as_f32(d, dy + c, left), xhat = hn::Mul(hn::Sub(load_as_f32(d, x + c, left), m), scale);
          const auto g = hn::Mul(v, load_as_f32(d, gamma + c, left));
          s0 = hn::Add(s0, g);
          p0 = hn::MulAdd(g, xhat, p0);
          store_f32_as(d, hn::MulAdd(v, xhat, load_as_f32(d, dgamma + c, left)), dgamma + c, left);
          store_f32_as(d, hn::Add(v, load_as_f32(d, dbeta + c, left)), dbeta + c, left);
        }
        sum += hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
        dot += hn::GetLane(hn::SumOfLanes(d, hn::Add(p0, p1)));
      }
      const auto n = static_cast<double>(p.cols);
      const auto mean_g = hn::Set(d, static_cast<float>(sum / n)), mean_dot = hn::Set(d, static_cast<float>(dot / n));
      const auto formula = [m, scale, mean_g, mean_dot](auto v, auto dv, auto g) HWY_ATTR {
        const auto xhat = hn::Mul(hn::Sub(v, m), scale);
        return hn::Mul(scale, hn::NegMulAdd(xhat, mean_dot, hn::MulSub(dv, g, mean_g)));
      };
      T* dx = t[P::dx].as<T>() + r * p.cols;
      stream ? map<true>(d, p.cols, formula, dx, x, dy, gamma) : map<false>(d, p.cols, formula, dx, x, dy, gamma);
    }
  });
  if (stream) hwy::FlushStream();
}

// Columns [first, last) of dgamma and dbeta. parts: (blocks, 2, cols).
void layernorm_backward_columns(const LayerNormBackward& p, Args t, const float* parts, int64_t blocks, int64_t first,
                                int64_t last) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    auto *dgamma = t[LayerNormBackward::dgamma].as<T>(), *dbeta = t[LayerNormBackward::dbeta].as<T>();
    for (int64_t c = first; c < last; c += lanes) {
      auto g = hn::Zero(d), b = g;
      for (int64_t k = 0; k < blocks; ++k) {
        const float* part = parts + 2 * k * p.cols + c;
        g = hn::Add(g, load_as_f32(d, part, last - c));
        b = hn::Add(b, load_as_f32(d, part + p.cols, last - c));
      }
      store_f32_as(d, g, dgamma + c, last - c);
      store_f32_as(d, b, dbeta + c, last - c);
    }
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

constexpr int64_t kBlocks = 64, kFewest = 32, kMost = 1024;  // blocks wanted; rows of a block

Plan layernorm_backward_tuned(const LayerNormBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  if (p.rows > kMost * kMost) return Unsupported{"more than 2^20 rows"};  // no sum of more than kMost parts
  const bool stream = beyond_cache(3 * p.rows * p.cols * size_of(p.dtype));
  const int64_t height = std::clamp(ceil_div(p.rows, kBlocks), kFewest, kMost), blocks = ceil_div(p.rows, height);
  WorkspaceLayout workspace;
  const auto sums = workspace.add<float>(blocks * 2 * p.cols);
  const auto run = [p, stream, height, blocks, sums, &cpu](Args t) {
    float* const parts = t.workspace(sums);
    cpu.parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) HWY_DYNAMIC_DISPATCH(layernorm_backward_rows)
      (p, t, b * height, std::min(p.rows, (b + 1) * height), stream, parts + b * 2 * p.cols);
    });
    cpu.parallel_for(p.cols, std::max<int64_t>(64, rows_per_chunk(2 * blocks)), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(layernorm_backward_columns)(p, t, parts, blocks, first, last);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(layernorm_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
