// SPDX-License-Identifier: Apache-2.0
// cross_entropy and its backward with vectors of f32. Threads share the rows, and x is read from memory once. Forward:
// a row is taken in parts that fit L1; whenever a part has a larger maximum, the sum so far is rescaled to it. Each row
// leaves its loss, and these are added in order, in double. Backward: one pass; results that would not stay in cache
// are written past it (streaming.h). The formulas of a row are in cross_entropy-inl.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/loss/cross_entropy_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/loss/cross_entropy-inl.h"
#include "cpu_ref/mean.h"
#include "cpu_ref/streaming.h"
#include "ops/loss/cross_entropy.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Rows [first, last): lse and row_loss. row_loss: (rows), in double, so that their mean has no rounding of f32.
void cross_entropy_rows(const CrossEntropy& p, Args t, int64_t first, int64_t last, double* row_loss) {
  using P = CrossEntropy;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const RowLoss row =
          cross_entropy_row(t[P::x].as<const T>() + r * p.cols, p.cols, t[P::label].as<const int32_t>()[r], p.smooth);
      t[P::lse].as<float>()[r] = row.lse;
      row_loss[r] = row.loss;
    }
  });
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
      row(x + r * p.cols, p.cols, lse[r], label[r], low, hot, scale, dx + r * p.cols, nullptr);
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
