// SPDX-License-Identifier: Apache-2.0
// cross_entropy_fused with vectors of f32. Threads share the rows. A row is read from memory for its loss, and then
// found in cache for its gradient (cross_entropy-inl.h). Each row leaves its loss, and these are added in order, in
// double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/loss/cross_entropy_fused_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/loss/cross_entropy-inl.h"
#include "cpu_ref/mean.h"
#include "cpu_ref/streaming.h"
#include "ops/loss/cross_entropy_fused.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Rows [first, last): row_loss and dx. row_loss: (rows). far: the tensors are beyond the caches; stream: dx goes past
// them.
void cross_entropy_fused_rows(const CrossEntropyFused& p, Args t, int64_t first, int64_t last, bool far, bool stream,
                              double* row_loss) {
  using P = CrossEntropyFused;
  const double spread = p.smooth / static_cast<double>(p.cols);
  const auto low = static_cast<float>(spread), hot = static_cast<float>(1 - p.smooth + spread);
  const float loss_scale = p.scaled ? *t[P::scale].as<const float>() : 1;
  const float scale = loss_scale / static_cast<float>(p.rows);
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto gradient = stream ? cross_entropy_backward_row<true, T> : cross_entropy_backward_row<false, T>;
    for (int64_t r = first; r < last; ++r) {
      const T* x = t[P::x].as<const T>() + r * p.cols;
      const int32_t label = t[P::label].as<const int32_t>()[r];
      const RowLoss row = cross_entropy_row(x, p.cols, label, p.smooth);
      row_loss[r] = row.loss;
      gradient(x, p.cols, row.lse, label, low, hot, scale, t[P::dx].as<T>() + r * p.cols, far ? x + p.cols : nullptr);
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(cross_entropy_fused_rows);

Plan cross_entropy_fused_tuned(const CrossEntropyFused& p, CpuContext& cpu) {
  using P = CrossEntropyFused;
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool beyond = beyond_cache(2 * p.rows * p.cols * size_of(p.dtype));
  WorkspaceLayout workspace;
  const auto row_losses = workspace.add<double>(p.rows);
  const auto run = [p, beyond, row_losses, &cpu](Args t) {
    double* losses = t.workspace(row_losses);
    const bool stream = beyond && t[P::dx].data != t[P::x].data;  // the lines of x are in cache already
    cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(cross_entropy_fused_rows)(p, t, first, last, beyond, stream, losses);
    });
    *t[P::loss].as<float>() = mean_of_rows(losses, p.rows);
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(cross_entropy_fused_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
