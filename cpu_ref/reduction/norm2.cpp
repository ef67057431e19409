// SPDX-License-Identifier: Apache-2.0
// Reference for norm2: serial, in double, the formula of the contract (ops/reduction/norm2.h) and nothing else. There
// is one slice.
#include "ops/reduction/norm2.h"

#include "core/registry.h"

namespace duet {

void Norm2::reference(Inputs in, int64_t /*slice*/, Expect& expect) const {
  BoundedSum sum(kRun);
  if (size_of(dtype) == 2) sum.has_short_squares();
  for (int64_t i = 0; i < n; ++i) sum.add(in[x][i] * in[x][i], in[x][i] * in[x][i]);
  const double norm = std::sqrt(sum.sum());
  expect(y, 0, norm, norm > 0 ? sum.error() / 2 / norm : 0);
}
DUET_PROBLEM(Norm2);

}  // namespace duet
