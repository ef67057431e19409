// SPDX-License-Identifier: Apache-2.0
// Reference for study/allocation: serial, in double, the formula of the contract and nothing else.
#include "ops/study/allocation.h"

#include "core/op_traits.h"

namespace duet {

void Allocation::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(pages, chunk, [&](int64_t p) { expect(y, p, in[x][p]); });
}
DUET_PROBLEM(Allocation);
DUET_TRAITS(Allocation);

}  // namespace duet
