// SPDX-License-Identifier: Apache-2.0
// study/memory_kind_filter on the CPU: vectors of outputs of a row, each input read where it lies.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/study/memory_kind_filter_tuned.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/simd-inl.h"
#include "ops/study/memory_kind.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// One row of y: (w). x: the first of its five rows, (5, w + 4). weight: (5, 5).
void study_filter_row(const float* x, const float* weight, float* y, int64_t w) {
  constexpr int64_t kSide = MemoryKindFilter::kSide;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t pitch = w + kSide - 1;
  for (int64_t j = 0; j < w; j += lanes) {
    decltype(hn::Zero(d)) sum[kSide];  // one for each row: chains that do not wait for each other
    for (int64_t r = 0; r < kSide; ++r) {
      sum[r] = hn::Zero(d);
      for (int64_t s = 0; s < kSide; ++s)
        sum[r] = hn::MulAdd(hn::Set(d, weight[r * kSide + s]), load(d, x + r * pitch + j + s, w - j, 0.0f), sum[r]);
    }
    store(d, hn::Add(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), sum[4]), y + j, w - j);
  }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(study_filter_row);

Plan study_memory_kind_filter_tuned(const MemoryKindFilter& p, CpuContext& cpu) {
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.w));  // rows
  return [p, grain, &cpu](Args t) {
    const auto* x = t[MemoryKindFilter::x].as<const float>();
    const auto* weight = t[MemoryKindFilter::weight].as<const float>();
    auto* y = t[MemoryKindFilter::y].as<float>();
    cpu.parallel_for(p.h, grain, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        HWY_DYNAMIC_DISPATCH(study_filter_row)(x + i * (p.w + MemoryKindFilter::kSide - 1), weight, y + i * p.w, p.w);
    });
  };
}
DUET_REGISTER(study_memory_kind_filter_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
#endif
