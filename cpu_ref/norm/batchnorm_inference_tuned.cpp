// SPDX-License-Identifier: Apache-2.0
// batchnorm of inference in one pass, with vectors of f32: y = act(x a + b + residual), where a and b of each channel
// are computed first from the running statistics. Threads share the planes (nchw) or the pixels (nhwc).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/norm/batchnorm_inference_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/registration.h"
#include "cpu_ref/norm/batchnorm-inl.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/streaming.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// a[c] and b[c] of all channels, in double. a, b: (c).
void inference_scales(const BatchNormInference& p, Args t, float* a, float* b) {
  using P = BatchNormInference;
  const hn::CappedTag<float, 1> one;
  const auto *mean = t[P::mean].as<const float>(), *var = t[P::var].as<const float>();
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    const auto *gamma = t[P::gamma].as<const T>(), *beta = t[P::beta].as<const T>();
    for (int64_t c = 0; c < p.c; ++c) {
      const double scale = hn::GetLane(load_as_f32(one, gamma + c)) / std::sqrt(var[c] + p.eps);
      a[c] = static_cast<float>(scale);
      b[c] = static_cast<float>(hn::GetLane(load_as_f32(one, beta + c)) - mean[c] * scale);
    }
  });
}

// Runs [first, last): planes (nchw) or pixels (nhwc).
template <bool kStream, class T>
void inference_runs(const BatchNormInference& p, Args t, const float* a, const float* b, int64_t first, int64_t last) {
  using P = BatchNormInference;
  const bool planes = p.layout == Layout::nchw;
  const int64_t length = planes ? p.pixels() : p.c;
  const auto* x = t[P::x].as<const T>();
  const auto* residual = p.residual ? t[P::added].as<const T>() : nullptr;
  auto* y = t[P::y].as<T>();
  for (int64_t i = first; i < last; ++i) {
    const int64_t at = i * length;
    const T* more = residual ? residual + at : nullptr;
    if (planes)
      scale_plane<kStream>(x + at, more, y + at, length, a[i % p.c], b[i % p.c], floor_of(p));
    else
      scale_pixel<kStream>(x + at, more, y + at, length, a, b, floor_of(p));
  }
}

void batchnorm_inference_runs(const BatchNormInference& p, Args t, const float* a, const float* b, int64_t first,
                              int64_t last, bool stream) {
  for_float(p.dtype, [&]<class T>() HWY_ATTR {
    (stream ? inference_runs<true, T> : inference_runs<false, T>)(p, t, a, b, first, last);
  });
  if (stream) hwy::FlushStream();
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(inference_scales);
HWY_EXPORT(batchnorm_inference_runs);

Plan batchnorm_inference_tuned(const BatchNormInference& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  const bool planes = p.layout == Layout::nchw;
  const int64_t runs = planes ? p.n * p.c : p.count(), length = planes ? p.pixels() : p.c;
  const bool stream = beyond_cache((p.residual ? 3 : 2) * p.elements() * size_of(p.dtype)) && length >= 64;
  WorkspaceLayout workspace;
  const auto scales = workspace.add<float>(p.c), shifts = workspace.add<float>(p.c);
  const auto run = [p, runs, length, stream, scales, shifts, &cpu](Args t) {
    float *const a = t.workspace(scales), *const b = t.workspace(shifts);
    HWY_DYNAMIC_DISPATCH(inference_scales)(p, t, a, b);
    cpu.parallel_for(runs, rows_per_chunk(length), [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(batchnorm_inference_runs)(p, t, a, b, first, last, stream);
    });
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(batchnorm_inference_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
