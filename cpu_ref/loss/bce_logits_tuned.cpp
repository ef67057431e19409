// SPDX-License-Identifier: Apache-2.0
// bce_logits and its backward with vectors of f32. Forward: the elements are cut into blocks that do not depend on the
// number of threads (mean.h). Threads share the blocks; each block leaves its sum, and these are added in order, in
// double. Backward: threads share the elements in chunks (chunks.h); results that would not stay in cache are written
// past it (streaming.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/loss/bce_logits_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/mean-inl.h"
#include "cpu_ref/mean.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"
#include "cpu_ref/activation-inl.h"
#include "ops/loss/bce_logits.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void bce_logits_blocks(const BceLogits& p, Args t, int64_t first, int64_t last, double* partial) {
  const hn::ScalableTag<float> d;
  const auto term = [d](auto x, auto target) HWY_ATTR {
    const auto rest = log1p_fraction(d, exp(d, hn::Neg(hn::Abs(x))));
    return hn::Add(hn::NegMulAdd(x, target, hn::Max(x, hn::Zero(d))), rest);
  };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    sum_blocks(d, p.n, first, last, partial, term, t[BceLogits::x].as<const T>(), t[BceLogits::t].as<const T>());
  });
}

void bce_logits_backward_chunk(const BceLogitsBackward& p, Args t, int64_t first, int64_t last, bool stream) {
  const hn::ScalableTag<float> d;
  const float loss_scale = p.scaled ? *t[BceLogitsBackward::loss_scale].as<const float>() : 1;
  const auto scale = hn::Set(d, static_cast<float>(p.scale) * loss_scale / static_cast<float>(p.n));
  const auto slope = [d, scale](auto x, auto target)
                         HWY_ATTR { return hn::Mul(hn::Sub(sigmoid(d, x), target), scale); };
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    map(d, stream, last - first, slope, t[BceLogitsBackward::dx].as<T>() + first,
        t[BceLogitsBackward::x].as<const T>() + first, t[BceLogitsBackward::t].as<const T>() + first);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(bce_logits_blocks);
HWY_EXPORT(bce_logits_backward_chunk);

Plan bce_logits_tuned(const BceLogits& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  const auto partial = workspace.add<double>(mean_blocks(p.n));
  const auto run = [p, partial, &cpu](Args t) {
    double* sums = t.workspace(partial);
    cpu.parallel_for(mean_blocks(p.n), kMeanGrain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(bce_logits_blocks)(p, t, first, last, sums);
    });
    *t[BceLogits::loss].as<float>() = mean_of(sums, p.n);
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(bce_logits_tuned);  // cpu.tuned

Plan bce_logits_backward_tuned(const BceLogitsBackward& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool stream = beyond_cache(3 * p.n * size_of(p.dtype));
  return [p, stream, &cpu](Args t) {
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(bce_logits_backward_chunk)(p, t, first, last, stream);
    });
  };
}
DUET_REGISTER(bce_logits_backward_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
