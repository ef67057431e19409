// SPDX-License-Identifier: Apache-2.0
// Reference for cast: serial, in double, the formula of the contract (ops/elementwise/cast.h) and nothing else. It
// claims x itself: the comparer rounds what it expects to the element type of y.
#include "ops/elementwise/cast.h"

#include "core/registry.h"

namespace duet {

void Cast::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, in[x][i]); });
}
DUET_PROBLEM(Cast);

}  // namespace duet
