// SPDX-License-Identifier: Apache-2.0
// Thin products (ThinProduct in engine.h): a matrix times a few vectors, all of which lie along k. Each sum is a dot
// product. Nothing is packed, and the matrix is read once, as fast as memory delivers it. engine.cpp divides its lines
// among threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/gemm/engine_dot.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "cpu_ref/floats-inl.h"
#include "cpu_ref/gemm/engine.h"

HWY_BEFORE_NAMESPACE();
namespace duet::engine::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace duet::HWY_NAMESPACE;  // NOLINT: load_as_f32, for_float

constexpr int kLines = 4;  // lines of the matrix at a time: enough independent sums to hide the latency of an addition

// The elements of c for `lines` (at most kLines) lines of the matrix, from `first` on, and kThin vectors.
template <class T, int kThin>
void dot(const ThinProduct& t, int64_t first, int64_t lines) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kLines][kThin];
  const T *line[kLines], *thin[kThin];  // lines that do not exist repeat the last one
  for (int i = 0; i < kLines; ++i)
    line[i] = static_cast<const T*>(t.matrix) + (first + std::min<int64_t>(i, lines - 1)) * t.matrix_step;
  for (int j = 0; j < kThin; ++j) thin[j] = static_cast<const T*>(t.thin) + j * t.thin_step;
#pragma GCC unroll 4
  for (int i = 0; i < kLines; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kThin; ++j) sum[i][j] = hn::Zero(d);
  const auto step = [&](int64_t p, auto at) HWY_ATTR {
    hn::Vec<decltype(d)> v[kThin];
#pragma GCC unroll 4
    for (int j = 0; j < kThin; ++j) v[j] = at(thin[j] + p);
#pragma GCC unroll 4
    for (int i = 0; i < kLines; ++i) {
      const auto a = at(line[i] + p);
#pragma GCC unroll 4
      for (int j = 0; j < kThin; ++j) sum[i][j] = hn::MulAdd(a, v[j], sum[i][j]);
    }
  };
  // Products, the last vector in part.
  int64_t p = 0;
  for (; p + lanes <= t.k; p += lanes) step(p, [&](const T* from) HWY_ATTR { return load_as_f32(d, from); });
  if (p < t.k) step(p, [&](const T* from) HWY_ATTR { return load_as_f32(d, from, t.k - p); });
  // Scale, add the bias or c, apply relu, write back.
  for (int64_t i = 0; i < lines; ++i)
    for (int j = 0; j < kThin; ++j) {
      float v = t.alpha * hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
      if (t.bias) v += static_cast<float>(static_cast<const T*>(t.bias)[(first + i) * t.bias_line + j * t.bias_thin]);
      T& c = static_cast<T*>(t.c)[(first + i) * t.c_line + j * t.c_thin];
      if (t.accumulate) v += static_cast<float>(c);
      c = T(t.relu && v < 0 ? 0 : v);
    }
}

void run_dots(const ThinProduct& t, int64_t first, int64_t last) {
  for_float(t.dtype, [&]<class T>() {
    constexpr void (*kDots[])(const ThinProduct&, int64_t, int64_t) = {dot<T, 1>, dot<T, 2>, dot<T, 3>, dot<T, 4>};
    for (int64_t i = first; i < last; i += kLines) kDots[t.vectors - 1](t, i, std::min<int64_t>(kLines, last - i));
  });
}

}  // namespace duet::engine::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet::engine {
namespace {
HWY_EXPORT(run_dots);
}
void run_thin(const ThinProduct& t, int64_t first, int64_t last) { HWY_DYNAMIC_DISPATCH(run_dots)(t, first, last); }

}  // namespace duet::engine
#endif
