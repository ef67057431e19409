// SPDX-License-Identifier: Apache-2.0
// Reference for fill: serial, in double, the formula of the contract (ops/memory/fill.h) and nothing else. A slice is a
// chunk of elements.
#include "ops/memory/fill.h"

#include "core/registry.h"

namespace duet {

void FillValue::reference(Inputs, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, value); });
}
DUET_PROBLEM(FillValue);

}  // namespace duet
