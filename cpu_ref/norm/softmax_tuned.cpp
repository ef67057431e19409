// SPDX-License-Identifier: Apache-2.0
// Threads share the rows. A row is read from memory once, in parts that fit L1, each with its own maximum and its
// exponentials kept in scratch. Their scaling to the row's maximum and sum is left to the next row: while its exponentials
// keep the arithmetic busy, those of the row before are written, past the caches.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/softmax_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/softmax-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// A part of the row before: its exponentials are still to be scaled and written.
template <class T>
struct Pending {
  const float* e;
  float scale;
  T* y;
};

// Powers of x[0 .. n) into e, their sum returned; writes the pending part, of as many elements.
template <bool kStream, class T>
HWY_INLINE float softmax_part(const T* x, int64_t n, float top_value, float* e, const Pending<T>& pending) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto top = hn::Set(d, top_value), scale = hn::Set(d, pending.scale);
  const auto scaled = [scale](auto v) HWY_ATTR { return hn::Mul(v, scale); };
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0, j = 0;  // done of x, of pending
  if (kStream && pending.y) {
    j = elements_to_alignment(d, pending.y, n);
    if (j > 0) store_f32_as(d, scaled(load_as_f32(d, pending.e, j)), pending.y, j);
  }
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto e0 = power(d, x + i, top), e1 = power(d, x + i + lanes, top);
    const auto e2 = power(d, x + i + 2 * lanes, top), e3 = power(d, x + i + 3 * lanes, top);
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
    s2 = hn::Add(s2, e2);
    s3 = hn::Add(s3, e3);
    hn::StoreU(e0, d, e + i);
    hn::StoreU(e1, d, e + i + lanes);
    hn::StoreU(e2, d, e + i + 2 * lanes);
    hn::StoreU(e3, d, e + i + 3 * lanes);
    if (HWY_LIKELY(pending.y && j + 4 * lanes <= n)) {
      for (int64_t k = 0; k < 4; ++k, j += lanes)
        stream_store<kStream>(d, scaled(load_as_f32(d, pending.e + j)), pending.y + j);
    }
  }
  for (; i < n; i += lanes) {
    const auto v = power(d, x + i, top, n - i);
    s0 = hn::Add(s0, v);
    store(d, v, e + i, n - i);
  }
  if (pending.y) map<kStream>(d, n - j, scaled, pending.y + j, pending.e + j);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// For a row: cols exponentials, and a top, later a scale, for each part. Whole cache lines, or every vector straddles two.
HWY_INLINE int64_t row_scratch(int64_t cols) { return ceil_div(cols + ceil_div(cols, kRowPart), 16) * 16; }

// scratch: for this row and the one before.
template <bool kStream, class T>
void softmax_run(const T* x, T* y, int64_t rows, int64_t cols, float* scratch) {
  const int64_t parts = ceil_div(cols, kRowPart);
  float *e = scratch, *before = scratch + row_scratch(cols);
  for (int64_t r = 0; r <= rows; ++r) {  // in round `rows` only the last row is written
    float top = -INFINITY, sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t c = part * kRowPart, n = std::min(kRowPart, cols - c);
      const Pending<T> pending{before + c, before[cols + part], r > 0 ? y + (r - 1) * cols + c : nullptr};
      if (r == rows) {
        const auto scale = hn::Set(hn::ScalableTag<float>(), pending.scale);
        map<kStream>(
            hn::ScalableTag<float>(), n, [scale](auto v) HWY_ATTR { return hn::Mul(v, scale); }, pending.y, pending.e);
        continue;
      }
      const T* from = x + r * cols + c;
      const float mine = e[cols + part] = top_of(max_of(from, n));
      const float s = softmax_part<kStream>(from, n, mine, e + c, pending);
      const float larger = std::max(top, mine);
      sum = parts == 1 ? s : sum * std::exp2(top - larger) + s * std::exp2(mine - larger);
      top = larger;
    }
    for (int64_t part = 0; part < parts; ++part)
      e[cols + part] = (parts == 1 ? 1 : std::exp2(e[cols + part] - top)) / sum;
    std::swap(e, before);
  }
}

void softmax_rows(const Softmax& p, Args t, int64_t first, int64_t last, bool stream, float* scratch) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[Softmax::x].as<const T>() + first * p.cols;
    auto* y = t[Softmax::y].as<T>() + first * p.cols;
    (stream ? softmax_run<true, T> : softmax_run<false, T>)(x, y, last - first, p.cols, scratch);
  });
  if (stream) hwy::FlushStream();
}

int64_t softmax_scratch(int64_t cols) { return 2 * row_scratch(cols); }

// The sum is a pass of its own over y and dy, which are then in cache.
template <class T>
HWY_INLINE float dot(const T* a, const T* b, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::MulAdd(load_as_f32(d, a + i), load_as_f32(d, b + i), s0);
    s1 = hn::MulAdd(load_as_f32(d, a + i + lanes), load_as_f32(d, b + i + lanes), s1);
    s2 = hn::MulAdd(load_as_f32(d, a + i + 2 * lanes), load_as_f32(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(load_as_f32(d, a + i + 3 * lanes), load_as_f32(d, b + i + 3 * lanes), s3);
  }
  for (; i < n; i += lanes) s0 = hn::MulAdd(load_as_f32(d, a + i, n - i), load_as_f32(d, b + i, n - i), s0);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

void softmax_backward_rows(const SoftmaxBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto *y = t[SoftmaxBackward::y].as<const T>(), *dy = t[SoftmaxBackward::dy].as<const T>();
    auto* dx = t[SoftmaxBackward::dx].as<T>();
    for (int64_t r = first; r < last; ++r) {
      const int64_t at = r * p.cols;
      const auto sum = hn::Set(d, dot(y + at, dy + at, p.cols));
      const auto formula = [sum](auto v, auto dv) HWY_ATTR { return hn::Mul(v, hn::Sub(dv, sum)); };
      stream ? map<true>(d, p.cols, formula, dx + at, y + at, dy + at)
             : map<false>(d, p.cols, formula, dx + at, y + at, dy + at);
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_scratch);
HWY_EXPORT(softmax_backward_rows);

Plan softmax_tuned(const Softmax& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.rows * p.cols * size_of(p.dtype));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, HWY_DYNAMIC_DISPATCH(softmax_scratch)(p.cols));
  return Plan([p, stream, scratch, &cpu](Args t) {
           cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
             HWY_DYNAMIC_DISPATCH(softmax_rows)(p, t, first, last, stream, scratch.mine(t));
           });
         })
      .with(std::move(workspace));
}
DUET_REGISTER(softmax_tuned);  // cpu.tuned

Plan softmax_backward_tuned(const SoftmaxBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(softmax_backward_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(softmax_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
