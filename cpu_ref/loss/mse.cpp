// SPDX-License-Identifier: Apache-2.0
// Reference for mse and its backward: serial, in double, the formulas of the contract (ops/loss/mse.h) and nothing
// else. The loss is one slice; backward a slice is a chunk of elements.
#include "ops/loss/mse.h"

#include "core/registry.h"

namespace duet {

void Mse::reference(Inputs in, int64_t /*slice*/, Expect& expect) const {
  double sum = 0, abs_sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double difference = in[x][i] - in[t][i];
    sum += difference * difference;
    abs_sum += difference * difference;
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, n));
  expect(loss, 0, sum / count, abs_sum / count);
}
DUET_PROBLEM(Mse);

void MseBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const auto count = static_cast<double>(n);
  in_chunk(n, chunk, [&](int64_t i) { expect(dx, i, scale * 2 * (in[x][i] - in[t][i]) / count); });
}
DUET_PROBLEM(MseBackward);

}  // namespace duet
