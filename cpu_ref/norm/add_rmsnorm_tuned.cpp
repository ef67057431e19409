// SPDX-License-Identifier: Apache-2.0
// add_rmsnorm with vectors of f32. Threads share the rows. x and residual are read from memory once, s and y are
// written once, past the caches where they would not stay there; what is between happens in cache (norm_rows-inl.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/add_rmsnorm_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/norm/norm_rows-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/scratch.h"
#include "cpu_ref/streaming.h"
#include "ops/norm/add_rmsnorm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Rows [first, last). scratch: memory for one row, used with `stream`.
void add_rmsnorm_rows(const AddRmsNorm& p, Args t, int64_t first, int64_t last, bool stream, float* scratch) {
  using P = AddRmsNorm;
  const hn::ScalableTag<float> d;
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const int64_t row = r * p.cols;
      const T *x = t[P::x].as<const T>() + row, *residual = t[P::residual].as<const T>() + row;
      const AddedRow<T> s =
          add_row(d, p.cols, stream, x, residual, t[P::s].as<T>() + row, reinterpret_cast<T*>(scratch), Square());
      t[P::rstd].as<float>()[r] = rmsnorm_row(d, p.cols, p.eps, stream, s.sum, s.row, t[P::gamma].as<const T>(),
                                              t[P::y].as<T>() + row, {x + p.cols, residual + p.cols});
    }
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(add_rmsnorm_rows);

Plan add_rmsnorm_tuned(const AddRmsNorm& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(4 * p.rows * p.cols * size_of(p.dtype));
  WorkspaceLayout workspace;
  const Scratch scratch(cpu, workspace, stream ? p.cols : 0);
  return Plan([p, stream, scratch, &cpu](Args t) {
           cpu.parallel_for(p.rows, rows_per_chunk(p.cols), [&](int64_t first, int64_t last) {
             HWY_DYNAMIC_DISPATCH(add_rmsnorm_rows)(p, t, first, last, stream, scratch.of_this_thread(t));
           });
         })
      .with(std::move(workspace));
}
DUET_REGISTER(add_rmsnorm_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
