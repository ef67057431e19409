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
  // gemm_acc: errors relative to |c| and to the |product|, in units of the claim's.
  const double unit = tolerance().abs_sum;
  const double of_c = kAccumulate ? error_of_c() / unit : 0;
  const double of_product = kAccumulate ? rounding_before_addition(dtype) / unit : 0;
  for (int64_t j = 0; j < n; ++j) {
    const ProductSum& s = sum[static_cast<size_t>(j)];
    const double before = kAccumulate ? in[c][slice * n + j] : 0, product = scale * s.sum();
    expect(c, slice * n + j, before + product,
           std::abs(scale) * s.root_sum() + of_c * std::abs(before) + of_product * std::abs(product));
  }
}
template void GemmOf<false>::reference(Inputs, int64_t, Expect&) const;
template void GemmOf<true>::reference(Inputs, int64_t, Expect&) const;
DUET_PROBLEM(Gemm);
DUET_PROBLEM(GemmAcc);

}  // namespace duet
