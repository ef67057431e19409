// SPDX-License-Identifier: Apache-2.0
// Reference for study/bank_conflict: serial, in double, the formula of the contract and nothing else.
#include "ops/study/bank_conflict.h"

#include "core/registry.h"

namespace duet {

void BankConflict::reference(Inputs in, int64_t row, Expect& expect) const {
  for (int64_t c = 0; c < cols; ++c) expect(y, c * rows + row, in[x][row * cols + c]);
}
DUET_PROBLEM(BankConflict);

}  // namespace duet
