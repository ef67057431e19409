// SPDX-License-Identifier: Apache-2.0
// Reference for study/transfer: serial, in double, the formula of the contract and nothing else.
#include "ops/study/transfer.h"

#include "core/op_traits.h"

namespace duet {

void Transfer::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) {
    expect(y, i, in[x][i]);
    if (moves_pages()) expect(x, i, in[x][i]);
  });
}
DUET_PROBLEM(Transfer);
DUET_TRAITS(Transfer);

}  // namespace duet
