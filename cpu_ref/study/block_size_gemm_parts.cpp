// SPDX-License-Identifier: Apache-2.0
// study/block_size_gemm on the CPU: the rows of c in as many equal parts as the case says. A row of c is summed in
// vectors of two, over tiles of b that stay in the L2 cache: plain code, whose division is what is studied, not its
// peak.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_ref/study/block_size_gemm_parts.cpp"  // compiled once per instruction set
#include <hwy/foreach_target.h>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "core/simd-inl.h"
#include "cpu_ref/study/parts.h"
#include "ops/study/block_size.h"

HWY_BEFORE_NAMESPACE();
namespace duet::HWY_NAMESPACE {

// Rows [first, last) of c = a b. a: (m, k), b: (k, n), c: (m, n).
void study_gemm_rows(const float* a, const float* b, float* c, int64_t first, int64_t last, int64_t n, int64_t k) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kRows = 4;
  for (int64_t j = 0; j < n; j += 2 * lanes)
    for (int64_t i = first; i < last; i += kRows) {
      decltype(hn::Zero(d)) sum[kRows][2];
      for (auto& row : sum) row[0] = row[1] = hn::Zero(d);
      const int64_t rows = std::min(kRows, last - i);
      for (int64_t p = 0; p < k; ++p) {
        const float* from = b + p * n + j;
        const auto b0 = load(d, from, n - j, 0.0f);
        const auto b1 = n - j > lanes ? load(d, from + lanes, n - j - lanes, 0.0f) : hn::Zero(d);
        for (int64_t r = 0; r < kRows; ++r) {
          const auto factor = hn::Set(d, a[(i + std::min(r, rows - 1)) * k + p]);
          sum[r][0] = hn::MulAdd(factor, b0, sum[r][0]);
          sum[r][1] = hn::MulAdd(factor, b1, sum[r][1]);
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        store(d, sum[r][0], c + (i + r) * n + j, n - j);
        if (n - j > lanes) store(d, sum[r][1], c + (i + r) * n + j + lanes, n - j - lanes);
      }
    }
}

}  // namespace duet::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace duet {
namespace {
HWY_EXPORT(study_gemm_rows);

Plan study_block_size_gemm_parts(const BlockSizeGemm& p, CpuContext& cpu) {
  if (p.division.parts == 0) return Unsupported{kNoParts};
  return [p, &cpu](Args t) {
    const auto* a = t[Gemm::a].as<const float>();
    const auto* b = t[Gemm::b].as<const float>();
    auto* c = t[Gemm::c].as<float>();
    in_parts(cpu, p.m, p.division.parts, [&](int64_t first, int64_t last) {
      HWY_DYNAMIC_DISPATCH(study_gemm_rows)(a, b, c, first, last, p.n, p.k);
    });
  };
}
DUET_REGISTER(study_block_size_gemm_parts);  // cpu.parts

}  // namespace
}  // namespace duet
#endif
