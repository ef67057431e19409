// SPDX-License-Identifier: Apache-2.0
// Reference for sum: serial, in double, the formula of the contract (ops/reduction/sum.h) and nothing else. A slice is
// one element of y.
#include "ops/reduction/sum.h"

#include "core/registry.h"

namespace duet {

void Sum::reference(Inputs in, int64_t i, Expect& expect) const {
  double sum = 0, abs_sum = 0;
  for (int64_t k = 0; k < length(); ++k) {
    const double term = in[x][axis == 1 ? i * cols + k : k * cols + i];
    sum += term;
    abs_sum += std::abs(term);
  }
  expect(y, i, sum, abs_sum);
}
DUET_PROBLEM(Sum);

}  // namespace duet
