// SPDX-License-Identifier: Apache-2.0
// Reference for mse and its backward: serial, in double, the formulas of the contract (ops/loss/mse.h) and nothing
// else. The loss is one slice; backward a slice is a chunk of elements.
#include "ops/loss/mse.h"

#include "core/registry.h"

namespace duet {

void Mse::reference(Inputs in, int64_t /*slice*/, Expect& expect) const {
  BoundedSum sum(kRun);
  if (size_of(dtype) == 2) sum.has_short_squares();
  for (int64_t i = 0; i < n; ++i) {
    const double difference = in[x][i] - in[t][i], square = difference * difference;
    sum.add(square, 3 * square);
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, n));
  expect(loss, 0, sum.sum() / count, (sum.error() + sum.abs_sum()) / count);
}
DUET_PROBLEM(Mse);

void MseBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const auto count = static_cast<double>(n);
  in_chunk(n, chunk, [&](int64_t i) { expect(dx, i, scale * 2 * (in[x][i] - in[t][i]) / count); });
}
DUET_PROBLEM(MseBackward);

}  // namespace duet
