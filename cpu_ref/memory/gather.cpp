// SPDX-License-Identifier: Apache-2.0
// Reference for gather: the formula of the contract (ops/memory/gather.h) and nothing else. A slice is a row of y.
#include "ops/memory/gather.h"

#include "core/registry.h"

namespace duet {

void Gather::reference(Inputs in, int64_t row_of_y, Expect& expect) const {
  const auto row = static_cast<int64_t>(in[index][row_of_y]);
  for (int64_t j = 0; j < cols; ++j) expect(y, row_of_y * cols + j, row >= 0 && row < rows ? in[x][row * cols + j] : 0);
}
DUET_PROBLEM(Gather);

}  // namespace duet
