// SPDX-License-Identifier: Apache-2.0
// Reference for scale_update: serial, in double, the formula of the contract (ops/elementwise/scale_update.h) and
// nothing else.
#include "ops/elementwise/scale_update.h"

#include "core/registry.h"

namespace duet {

void ScaleUpdate::reference(Inputs in, int64_t /*slice*/, Expect& expect) const {
  const bool failed = in[bad][0] != 0, full = !failed && in[good][0] + 1 >= static_cast<double>(interval);
  const double now = in[scale][0], twice = 2 * now > largest(dtype) ? now : 2 * now;
  expect(scale, 0, failed ? std::max(now / 2, underflow(dtype)) : full ? twice : now);
  expect(good, 0, failed || full ? 0 : in[good][0] + 1);
}
DUET_PROBLEM(ScaleUpdate);

}  // namespace duet
