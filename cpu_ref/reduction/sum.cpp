// SPDX-License-Identifier: Apache-2.0
// Reference for sum: serial, in double, the formula of the contract (ops/reduction/sum.h) and nothing else. A slice is
// one element of y.
#include "ops/reduction/sum.h"

#include "core/registry.h"

namespace duet {

void Sum::reference(Inputs in, int64_t i, Expect& expect) const {
  BoundedSum sum(kRun);
  for (int64_t k = 0; k < length(); ++k) sum.add(in[x][axis == 1 ? i * cols + k : k * cols + i]);
  expect(y, i, sum.sum(), sum.error());
}
DUET_PROBLEM(Sum);

}  // namespace duet
