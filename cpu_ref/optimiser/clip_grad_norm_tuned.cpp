// SPDX-License-Identifier: Apache-2.0
// clip_grad_norm in one pass: g is scaled so that its norm, which an op before has computed, is at most max_norm.
// Threads share the elements in chunks (chunks.h). Stores are plain: g has just been read, so its lines are in cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/optimiser/clip_grad_norm_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/floats-inl.h"
#include "cpu_ref/chunks.h"
#include "ops/optimiser/clip_grad_norm.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void clip_chunk(DType dtype, Args t, float scale, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, scale);
  const auto shrink = [by](auto g) HWY_ATTR { return hn::Mul(g, by); };
  for_float(dtype, [&]<class T>() HWY_ATTR {
    T* g = t[ClipGradNorm::g].as<T>() + first;
    map<false>(d, last - first, shrink, g, g);
  });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(clip_chunk);

Plan clip_grad_norm_tuned(const ClipGradNorm& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  return [p, &cpu](Args t) {
    const double norm = *t[ClipGradNorm::norm].as<const float>();
    const auto scale = static_cast<float>(std::min(1.0, p.max_norm / (norm + ClipGradNorm::kGuard)));
    parallel_chunks(cpu, p.n, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(clip_chunk)(p.dtype, t, scale, first, last);
    });
  };
}
DUET_REGISTER(clip_grad_norm_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
