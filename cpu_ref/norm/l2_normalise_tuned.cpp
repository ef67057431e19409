// SPDX-License-Identifier: Apache-2.0
// l2_normalise and its backward, with vectors of f32. Threads share the rows; the pass for the result finds the row in
// cache. Results that would not stay there are written past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/l2_normalise_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cmath>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/reduce-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/l2_normalise.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Rows [first, last).
void l2_normalise_rows(const L2Normalise& p, Args t, int64_t first, int64_t last, bool stream) {
  using P = L2Normalise;
  const hn::ScalableTag<float> d;
  auto* scales = t[P::scale].as<float>();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[P::x].as<const T>() + r * p.cols;
      T* y = t[P::y].as<T>() + r * p.cols;
      const auto square = [](auto v) HWY_ATTR { return hn::Mul(v, v); };
      const double norm = std::sqrt(sum_in_runs(d, p.cols, square, x));
      scales[r] = static_cast<float>(1 / (norm < p.eps ? p.eps : norm));
      const auto scale = hn::Set(d, scales[r]);
      const auto formula = [scale](auto v) HWY_ATTR { return hn::Mul(v, scale); };
      stream ? map<true>(d, p.cols, formula, y, x) : map<false>(d, p.cols, formula, y, x);
    }
  });
  if (stream) hwy::FlushStream();
}

void l2_normalise_backward_rows(const L2NormaliseBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  using P = L2NormaliseBackward;
  const hn::ScalableTag<float> d;
  const auto max_scale = static_cast<float>(L2Normalise::max_scale(p.eps));
  const auto* scales = t[P::scale].as<const float>();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T *y = t[P::y].as<const T>() + r * p.cols, *dy = t[P::dy].as<const T>() + r * p.cols;
      T* dx = t[P::dx].as<T>() + r * p.cols;
      const auto product = [](auto v, auto dv) HWY_ATTR { return hn::Mul(v, dv); };
      const bool short_row = scales[r] > max_scale;
      const auto dot = hn::Set(d, short_row ? 0.0f : static_cast<float>(sum_in_runs(d, p.cols, product, y, dy)));
      const auto scale = hn::Set(d, scales[r]);
      const auto formula = [scale, dot](auto v, auto dv) HWY_ATTR { return hn::Mul(scale, hn::NegMulAdd(v, dot, dv)); };
      stream ? map<true>(d, p.cols, formula, dx, y, dy) : map<false>(d, p.cols, formula, dx, y, dy);
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(l2_normalise_rows);
HWY_EXPORT(l2_normalise_backward_rows);

Plan l2_normalise_tuned(const L2Normalise& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(l2_normalise_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(l2_normalise_tuned);  // cpu.tuned

Plan l2_normalise_backward_tuned(const L2NormaliseBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(l2_normalise_backward_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(l2_normalise_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
