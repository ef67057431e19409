// SPDX-License-Identifier: Apache-2.0
// norm2 with vectors of f32. The elements are cut into blocks that do not depend on the number of threads (mean.h).
// Threads share the blocks; each block leaves its sum of squares, and these are added in order, in double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/reduction/norm2_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include <cmath>

#include "core/registration.h"
#include "cpu_ref/mean-inl.h"
#include "cpu_ref/mean.h"
#include "cpu_ref/chunks.h"
#include "ops/reduction/norm2.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void norm2_blocks(const Norm2& p, Args t, int64_t first, int64_t last, double* partial) {
  const hn::ScalableTag<float> d;
  const auto square = [](auto x) HWY_ATTR { return hn::Mul(x, x); };
  for_float(p.dtype,
            [&]<class T>() HWY_ATTR { sum_blocks(d, p.n, first, last, partial, square, t[Norm2::x].as<const T>()); });
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(norm2_blocks);

Plan norm2_tuned(const Norm2& p, CpuContext& cpu) {
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  const auto partial = workspace.add<double>(mean_blocks(p.n));
  const auto run = [p, partial, &cpu](Args t) {
    double* sums = t.workspace(partial);
    cpu.parallel_for(mean_blocks(p.n), kMeanGrain, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(norm2_blocks)(p, t, first, last, sums);
    });
    *t[Norm2::y].as<float>() = static_cast<float>(std::sqrt(sum_of(sums, p.n)));
  };
  return Plan(run).with(std::move(workspace));
}
DUET_REGISTER(norm2_tuned);  // cpu.tuned
}  // namespace
}  // namespace duet
#endif
