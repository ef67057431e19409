// SPDX-License-Identifier: Apache-2.0
// cross_entropy and its backward with vectors of f32. Threads share the rows, and x is read from memory once. Forward:
// a row is taken in parts that fit L1; whenever a part has a larger maximum, the sum so far is rescaled to it. Each row
// leaves its loss, and these are added in order, in double. Backward: one pass; results that would not stay in cache
// are written past it (streaming.h). The pieces shared with softmax are in softmax-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/loss/cross_entropy_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <numbers>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/mean.h"
#include "cpu_ref/softmax-inl.h"
#include "cpu_ref/streaming.h"
#include "ops/loss/cross_entropy.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Rows [first, last): lse, and row_loss = lse - sum_c q[c] x[c], where q is the smoothed label. row_loss: (rows), in
// double, so that their mean has no rounding of f32.
void cross_entropy_rows(const CrossEntropy& p, Args t, int64_t first, int64_t last, double* row_loss) {
  const hn::ScalableTag<float> d;
  const auto same = [](auto v) HWY_ATTR { return v; };
  const auto* label = t[CrossEntropy::label].as<const int32_t>();
  auto* lse = t[CrossEntropy::lse].as<float>();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[CrossEntropy::x].as<const T>() + r * p.cols;
      float top = -INFINITY;       // powers is the sum of 2^(x log2 e - top)
      double powers = 0, all = 0;  // all: the sum of x, for smoothing
      for (int64_t c = 0; c < p.cols; c += kRowPart) {
        const int64_t n = std::min(kRowPart, p.cols - c);
        // Maximum so far; rescale to it.
        const float larger = std::max(top, top_of(max_of(x + c, n)));
        if (larger > top) {
          powers *= std::exp2(double{top} - larger);
          top = larger;
        }
        // Sum of exponentials, and of x.
        powers += power_sum(x + c, n, top);
        if (p.smooth != 0) all += sum(d, n, same, x + c);
      }
      // Loss of the row.
      const double row = top * std::numbers::ln2 + std::log(powers);
      const bool labelled = label[r] >= 0 && label[r] < p.cols;
      lse[r] = static_cast<float>(row);
      row_loss[r] =
          row - (labelled ? (1 - p.smooth) * element(x + label[r]) : 0) - p.smooth * all / static_cast<double>(p.cols);
    }
  });
}

// One row: dx = (exp(x - lse) - q) scale, where q is `hot` for the label and `spread` for every other column.
template <bool kStream, class T>
void cross_entropy_backward_row(const T* x, int64_t cols, float lse, int64_t label, float spread, float hot,
                                float scale, T* dx) {
  const hn::ScalableTag<float> d;
  const auto l = hn::Set(d, lse), q = hn::Set(d, spread), s = hn::Set(d, scale);
  const auto formula = [d, l, q, s](auto v) HWY_ATTR { return hn::Mul(hn::Sub(exp(d, hn::Sub(v, l)), q), s); };
  // The labelled element is written last, from a copy of its x, because dx may be x.
  const bool labelled = label >= 0 && label < cols;
  const float marked = labelled ? element(x + label) : 0;
  map<kStream>(d, cols, formula, dx, x);
  if (!labelled) return;
  const hn::CappedTag<float, 1> one;
  const auto p = exp(one, hn::Set(one, marked - lse));
  store_f32_as(one, hn::Mul(hn::Sub(p, hn::Set(one, hot)), hn::Set(one, scale)), dx + label);
}

void cross_entropy_backward_rows(const CrossEntropyBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const auto* label = t[CrossEntropyBackward::label].as<const int32_t>();
  const auto* lse = t[CrossEntropyBackward::lse].as<const float>();
  const double spread = p.smooth / static_cast<double>(p.cols);
  const auto low = static_cast<float>(spread), hot = static_cast<float>(1 - p.smooth + spread);
  const float loss_scale = p.scaled ? *t[CrossEntropyBackward::scale].as<const float>() : 1;
  const float scale = loss_scale / static_cast<float>(p.rows);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto* x = t[CrossEntropyBackward::x].as<const T>();
    auto* dx = t[CrossEntropyBackward::dx].as<T>();
    const auto row = stream ? cross_entropy_backward_row<true, T> : cross_entropy_backward_row<false, T>;
    for (int64_t r = first; r < last; ++r)
      row(x + r * p.cols, p.cols, lse[r], label[r], low, hot, scale, dx + r * p.cols);
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(cross_entropy_rows);
HWY_EXPORT(cross_entropy_backward_rows);

Plan cross_entropy_tuned(const CrossEntropy& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  const auto row_losses = workspace.add<double>(p.rows);
  const auto run = [p, row_losses, &cpu](Args t) {
    double* losses = t.workspace(row_losses);
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(p, t, first, last, losses);
    });
    *t[CrossEntropy::loss].as<float>() = mean_of_rows(losses, p.rows);
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(cross_entropy_tuned);  // cpu.tuned

Plan cross_entropy_backward_tuned(const CrossEntropyBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(2 * p.rows * p.cols * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(cross_entropy_backward_rows)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(cross_entropy_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
