// SPDX-License-Identifier: Apache-2.0
// Reference for copy: serial, in double, the formula of the contract (ops/memory/copy.h) and nothing else. A slice is a
// chunk of elements.
#include "ops/memory/copy.h"

#include "core/registry.h"

namespace duet {

void Copy::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, in[x][i]); });
}
DUET_PROBLEM(Copy);

}  // namespace duet
