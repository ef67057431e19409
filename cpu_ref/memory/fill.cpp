// SPDX-License-Identifier: Apache-2.0
// The judge of fill.
#include "ops/memory/fill.h"

#include "core/registry.h"

namespace duet {

void FillValue::reference(Inputs, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, value); });
}
DUET_PROBLEM(FillValue);

}  // namespace duet
