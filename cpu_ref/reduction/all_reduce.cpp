// SPDX-License-Identifier: Apache-2.0
// Reference for all_reduce: serial, in double, the formula of the contract (ops/reduction/all_reduce.h) and nothing
// else. A slice is an element of all replicas.
#include "ops/reduction/all_reduce.h"

#include "core/registry.h"

namespace duet {

void AllReduce::reference(Inputs in, int64_t i, Expect& expect) const {
  BoundedSum sum;
  for (int64_t s = 0; s < replicas; ++s) sum.add(in[x][s * n + i]);
  const double divisor = op == ReduceOp::mean ? static_cast<double>(replicas) : 1;
  for (int64_t r = 0; r < replicas; ++r) expect(y, r * n + i, sum.sum() / divisor, sum.error() / divisor);
}
DUET_PROBLEM(AllReduce);

}  // namespace duet
