// SPDX-License-Identifier: Apache-2.0
// Reference for gemm and gemm_acc: serial, in double, the formula of the contract (ops/gemm/gemm.h) and nothing else.
// A slice is a row of c.
#include "ops/gemm/gemm.h"

#include "core/registry.h"
#include "cpu_ref/product_sum.h"

namespace duet {

template <bool kAccumulate>
void GemmOf<kAccumulate>::reference(Inputs in, int64_t slice, Expect& expect) const {
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
  const double weight = kAccumulate ? error_of_c() / tolerance().abs_sum : 0;  // of |c|
  for (int64_t j = 0; j < n; ++j) {
    const ProductSum& s = sum[static_cast<size_t>(j)];
    const double before = kAccumulate ? in[c][slice * n + j] : 0;
    expect(c, slice * n + j, before + scale * s.sum(), std::abs(scale) * s.root_sum() + weight * std::abs(before));
  }
}
template void GemmOf<false>::reference(Inputs, int64_t, Expect&) const;
template void GemmOf<true>::reference(Inputs, int64_t, Expect&) const;
DUET_PROBLEM(Gemm);
DUET_PROBLEM(GemmAcc);

}  // namespace duet
