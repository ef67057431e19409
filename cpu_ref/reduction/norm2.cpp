// SPDX-License-Identifier: Apache-2.0
// Reference for norm2: serial, in double, the formula of the contract (ops/reduction/norm2.h) and nothing else. There
// is one slice.
#include "ops/reduction/norm2.h"

#include "core/registry.h"

namespace duet {

void Norm2::reference(Inputs in, int64_t /*slice*/, Expect& expect) const {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += in[x][i] * in[x][i];
  expect(y, 0, std::sqrt(sum));
}
DUET_PROBLEM(Norm2);

}  // namespace duet
