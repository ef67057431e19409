// SPDX-License-Identifier: Apache-2.0
// Reference for gemv: serial, in double, the formula of the contract (ops/gemm/gemv.h) and nothing else. A slice is an
// element of y.
#include "ops/gemm/gemv.h"

#include "core/registry.h"
#include "cpu_ref/product_sum.h"

namespace duet {

void Gemv::reference(Inputs in, int64_t i, Expect& expect) const {
  const auto A = in[a], X = in[x];
  ProductSum sum;
  for (int64_t j = 0; j < n; ++j) sum.add(A[trans ? j * m + i : i * n + j] * X[j]);
  expect(y, i, sum.sum(), sum.root_sum());
}
DUET_PROBLEM(Gemv);

}  // namespace duet
