// SPDX-License-Identifier: Apache-2.0
// Reference for study/launch: serial, in double, the formula of the contract and nothing else.
#include "ops/study/launch.h"

#include "core/op_traits.h"

namespace duet {

void Launch::reference(Inputs in, int64_t node, Expect& expect) const {
  for (int64_t c = 0; c < kCols; ++c) expect(y, node * kCols + c, in[x][node * kCols + c] + 1);
}
DUET_PROBLEM(Launch);
DUET_TRAITS(Launch);

}  // namespace duet
