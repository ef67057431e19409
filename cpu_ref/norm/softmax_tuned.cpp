// SPDX-License-Identifier: Apache-2.0
// softmax and its backward, with vectors of f32. Threads share the rows, and a row is read from memory once, in parts
// that fit L1. Each part has its own maximum, and its exponentials are kept in scratch memory. They still need to be
// scaled to the maximum and the sum of the row, and written. That is left to the next row: while its exponentials keep
// the arithmetic busy, the exponentials of the row before are written, past the caches where the tensors exceed them.
// Backward: one pass for the sum of y dy, one for dx, which finds y and dy in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/softmax_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/map_ahead-inl.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/softmax-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// A part of the row before, whose exponentials e still have to be scaled and written to y. y is null for the first row.
template <class T>
struct Pending {
  const float* e;
  float scale;
  T* y;
};

// e = the powers of x[0 .. n); returns their sum. On the way it writes the pending part, which has as many elements,
// one vector for each vector of x.
template <bool kStream, class T>
HWY_INLINE float softmax_part(const T* x, int64_t n, float top_value, float* e, const Pending<T>& pending) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto top = hn::Set(d, top_value), scale = hn::Set(d, pending.scale);
  const auto scaled = [scale](auto v) HWY_ATTR { return hn::Mul(v, scale); };
  int64_t j = 0;  // elements of `pending` that are written
  // Up to the alignment of the pending row.
  if (kStream && pending.y) {
    j = elements_to_alignment(d, pending.y, n);
    if (j > 0) store_f32_as(d, scaled(load_as_f32(d, pending.e, j)), pending.y, j);
  }
  // Exponentials and their sum.
  const auto sums = reduce(
      d, n, hn::Zero(d),
      [&](auto acc, int64_t i, auto... left) HWY_ATTR {
        const auto v = power(d, x + i, top, left...);
        store_f32_as(d, v, e + i, left...);
        if constexpr (kStream) hwy::Prefetch(x + i + kPartsAhead);
        if (HWY_LIKELY(pending.y && j + lanes <= n)) {
          stream_store<kStream>(d, scaled(load_as_f32(d, pending.e + j)), pending.y + j);
          j += lanes;
        }
        return hn::Add(acc, v);
      },
      [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  // What is left of the pending part.
  if (pending.y) map<kStream>(d, n - j, scaled, pending.y + j, pending.e + j);
  return hn::GetLane(hn::SumOfLanes(d, sums));
}

// Floats of scratch for one row: cols exponentials, and for each part its top and later its scale. Rounded up to whole
// cache lines, or every vector of the next row would straddle two.
HWY_INLINE int64_t row_scratch(int64_t cols) { return ceil_div(cols + ceil_div(cols, kRowPart), 16) * 16; }

// All rows of a task. scratch: for this row and the row before.
template <bool kStream, class T>
void softmax_run(const T* x, T* y, int64_t rows, int64_t cols, float* scratch) {
  const int64_t parts = ceil_div(cols, kRowPart);
  float *e = scratch, *before = scratch + row_scratch(cols);
  for (int64_t r = 0; r <= rows; ++r) {  // the round r == rows only writes the last row
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
      // Maximum and exponentials of the part, written while the row before is scaled.
      const T* from = x + r * cols + c;
      const float part_top = e[cols + part] = top_of(max_of(from, n));
      const float s = softmax_part<kStream>(from, n, part_top, e + c, pending);
      // The sum of the row so far, rescaled to the larger maximum.
      const float larger = std::max(top, part_top);
      sum = parts == 1 ? s : sum * std::exp2(top - larger) + s * std::exp2(part_top - larger);
      top = larger;
    }
    // The scale of each part.
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

void softmax_backward_rows(const SoftmaxBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto *y = t[SoftmaxBackward::y].as<const T>(), *dy = t[SoftmaxBackward::dy].as<const T>();
    auto* dx = t[SoftmaxBackward::dx].as<T>();
    for (int64_t r = first; r < last; ++r) {
      const int64_t at = r * p.cols;
      const auto sum = hn::Set(d, dot(d, y + at, dy + at, p.cols));
      const auto formula = [sum](auto v, auto dv) HWY_ATTR { return hn::Mul(v, hn::Sub(dv, sum)); };
      map_ahead(d, stream, p.cols, formula, dx + at, {y + at + p.cols, dy + at + p.cols}, y + at, dy + at);
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
             HWY_DYNAMIC_DISPATCH(softmax_rows)(p, t, first, last, stream, scratch.of_this_thread(t));
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
