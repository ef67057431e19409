// SPDX-License-Identifier: Apache-2.0
// The judge of cast: what is compared is already rounded to the type of y.
#include "ops/elementwise/cast.h"

#include "core/registry.h"

namespace duet {

void Cast::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, in[x][i]); });
}
DUET_PROBLEM(Cast);

}  // namespace duet
