// SPDX-License-Identifier: Apache-2.0
// mse and its backward with vectors of f32. Forward: the elements are cut into blocks that do not depend on the number
// of threads (mean.h). Threads share the blocks; each block leaves its sum, and these are added in order, in double.
// Backward: threads share the elements in chunks (chunks.h); results that would not stay in cache are written past it
// (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/loss/mse_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/mean-inl.h"
#include "cpu_ref/mean.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "ops/loss/mse.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void mse_blocks(const Mse& p, Args t, int64_t first, int64_t last, double* partial) {
  const hn::ScalableTag<float> d;
  const auto term = [](auto x, auto target) HWY_ATTR {
    const auto difference = hn::Sub(x, target);
    return hn::Mul(difference, difference);
  };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    sum_blocks(d, p.n, first, last, partial, term, t[Mse::x].as<const T>(), t[Mse::t].as<const T>());
  });
}

void mse_backward_chunk(const MseBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, static_cast<float>(2 * p.scale) / static_cast<float>(p.n));
  const auto slope = [scale](auto x, auto target) HWY_ATTR { return hn::Mul(hn::Sub(x, target), scale); };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    map(d, stream, last - first, slope, t[MseBackward::dx].as<T>() + first, t[MseBackward::x].as<const T>() + first,
        t[MseBackward::t].as<const T>() + first);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(mse_blocks);
HWY_EXPORT(mse_backward_chunk);

Plan mse_tuned(const Mse& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  const auto partial = workspace.add<double>(mean_blocks(p.n));
  const auto run = [p, partial, &cpu](Args t) {
    double* sums = t.workspace(partial);
    cpu.parallel_for(mean_blocks(p.n), kMeanGrain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(mse_blocks)(p, t, first, last, sums);
    });
    *t[Mse::loss].as<float>() = mean_of(sums, p.n);
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(mse_tuned);  // cpu.tuned

Plan mse_backward_tuned(const MseBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(mse_backward_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(mse_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
