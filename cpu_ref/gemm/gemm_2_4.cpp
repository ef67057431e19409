// SPDX-License-Identifier: Apache-2.0
// Reference for gemm_2_4: serial, in double, the formula of the contract (ops/gemm/gemm_2_4.h) and nothing else. A
// slice is a row of c.
#include "ops/gemm/gemm_2_4.h"

#include "core/registry.h"
#include "cpu_ref/product_sum.h"

namespace duet {

void Gemm24::reference(Inputs in, int64_t i, Expect& expect) const {
  std::vector<ProductSum> sum(static_cast<size_t>(n));
  for (int64_t s = 0; s < k / 2; ++s) {
    const auto bits = static_cast<int>(in[meta][i * (k / 8) + s / 4]);
    const auto place_of = [&](int64_t t) { return 4 * (t / 2) + (bits >> (2 * (t % 4)) & 3); };
    const int64_t place = place_of(s);
    if (s % 2 == 0 && place_of(s + 1) == place) continue;
    const double factor = in[value][i * (k / 2) + s];
    for (int64_t j = 0; j < n; ++j) sum[static_cast<size_t>(j)].add(factor * in[b][place * n + j]);
  }
  for (int64_t j = 0; j < n; ++j)
    expect(c, i * n + j, sum[static_cast<size_t>(j)].sum(), sum[static_cast<size_t>(j)].root_sum());
}
DUET_PROBLEM(Gemm24);

}  // namespace duet
