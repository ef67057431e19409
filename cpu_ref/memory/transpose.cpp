// SPDX-License-Identifier: Apache-2.0
// Reference for transpose: serial, in double, the formula of the contract (ops/memory/transpose.h) and nothing else. A
// slice is a row of y.
#include "ops/memory/transpose.h"

#include "core/registry.h"

namespace duet {

void Transpose::reference(Inputs in, int64_t row_of_y, Expect& expect) const {
  const int64_t b = row_of_y / cols, j = row_of_y % cols;
  for (int64_t i = 0; i < rows; ++i) expect(y, row_of_y * rows + i, in[x][(b * rows + i) * cols + j]);
}
DUET_PROBLEM(Transpose);

}  // namespace duet
