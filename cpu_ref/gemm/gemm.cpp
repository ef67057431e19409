// SPDX-License-Identifier: Apache-2.0
// Reference for gemm: serial, in double, the formula of the contract (ops/gemm/gemm.h) and nothing else. A slice is a
// row of c.
#include "ops/gemm/gemm.h"

#include "core/registry.h"
#include "cpu_ref/product_sum.h"

namespace duet {

void Gemm::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t image = slice / m, i = slice % m;
  const auto A = in[a], B = in[b];
  std::vector<ProductSum> sum(static_cast<size_t>(n));
  const auto add = [&](int64_t p, int64_t j) {
    sum[static_cast<size_t>(j)].add(A[image * m * k + (trans_a ? p * m + i : i * k + p)] *
                                    B[image * k * n + (trans_b ? j * k + p : p * n + j)]);
  };
  if (trans_b) {  // the order of the loops follows b in memory
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) add(p, j);
  } else {
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) add(p, j);
  }
  const double scale = alpha;
  for (int64_t j = 0; j < n; ++j) {
    const ProductSum& s = sum[static_cast<size_t>(j)];
    expect(c, slice * n + j, scale * s.sum(), std::abs(scale) * s.root_sum());
  }
}
DUET_PROBLEM(Gemm);

}  // namespace duet
