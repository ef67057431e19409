// SPDX-License-Identifier: Apache-2.0
// Reference for spmm: serial, in double, the formula of the contract (ops/gemm/spmm.h) and nothing else. A slice is a
// row of c.
#include "ops/gemm/spmm.h"

#include <algorithm>

#include "core/registry.h"

namespace duet {

void Spmm::reference(Inputs in, int64_t i, Expect& expect) const {
  const auto bound = [&](int64_t at) { return std::clamp(static_cast<int64_t>(in[row][at]), int64_t{0}, nnz); };
  std::vector<BoundedSum> sum(static_cast<size_t>(n));
  for (int64_t e = bound(i); e < bound(i + 1); ++e) {
    const auto column = static_cast<int64_t>(in[col][e]);
    if (column < 0 || column >= k) continue;
    const double factor = in[value][e];
    for (int64_t j = 0; j < n; ++j) {
      const double term = factor * in[b][column * n + j];
      sum[static_cast<size_t>(j)].add(term, std::abs(term));
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    const BoundedSum& s = sum[static_cast<size_t>(j)];
    expect(c, i * n + j, s.sum(), s.error());
  }
}

DUET_PROBLEM(Spmm);

}  // namespace duet
