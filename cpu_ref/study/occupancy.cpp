// SPDX-License-Identifier: Apache-2.0
// Reference for study/occupancy: serial, in double, the formula of the contract and nothing else.
#include "ops/study/occupancy.h"

#include "core/registry.h"

namespace duet {

void Occupancy::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, in[x][i] + static_cast<double>(rounds)); });
}
DUET_PROBLEM(Occupancy);

}  // namespace duet
