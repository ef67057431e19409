// SPDX-License-Identifier: Apache-2.0
// study/block_size_softmax on the CPU: the rows in as many equal parts as the case says, each row in three passes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/study/block_size_softmax_parts.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>
#include <hwy/contrib/math/math-inl.h>  // Exp

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/simd-inl.h"
#include "cpu_ref/study/parts.h"
#include "ops/study/block_size.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

void study_softmax_row(const float* x, float* y, int64_t cols) {  // x, y: (cols)
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kPadding = -INFINITY;  // pads the last vector: never the maximum, and exp(-inf) is 0
  auto max = hn::Set(d, kPadding);
  auto sum = hn::Zero(d);
  for (int64_t c = 0; c < cols; c += lanes) max = hn::Max(max, load(d, x + c, cols - c, kPadding));
  max = hn::MaxOfLanes(d, max);
  for (int64_t c = 0; c < cols; c += lanes) {
    const auto e = hn::Exp(d, hn::Sub(load(d, x + c, cols - c, kPadding), max));
    sum = hn::Add(sum, e);
    store(d, e, y + c, cols - c);
  }
  const auto scale = hn::Div(hn::Set(d, 1), hn::SumOfLanes(d, sum));
  for (int64_t c = 0; c < cols; c += lanes) store(d, hn::Mul(load(d, y + c, cols - c, 0.0f), scale), y + c, cols - c);
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(study_softmax_row);

Plan study_block_size_softmax_parts(const BlockSizeSoftmax& p, CpuContext& cpu) {
  if (p.division.parts == 0) return Unsupported{kNoParts};
  return [p, &cpu](Args t) {
    const auto* x = t[Softmax::x].as<const float>();
    auto* y = t[Softmax::y].as<float>();
    in_parts(cpu, p.rows, p.division.parts, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r)
        HWY_DYNAMIC_DISPATCH(study_softmax_row)(x + r * p.cols, y + r * p.cols, p.cols);
    });
  };
}
DUET_REGISTER(study_block_size_softmax_parts);  // cpu.parts

}  // namespace
}  // namespace duet
#endif
