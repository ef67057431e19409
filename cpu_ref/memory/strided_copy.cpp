// SPDX-License-Identifier: Apache-2.0
// Reference for strided_copy: the formula of the contract (ops/memory/strided_copy.h) and nothing else. A slice is a
// chunk of elements of y.
#include "ops/memory/strided_copy.h"

#include "core/registry.h"

namespace duet {

void StridedCopy::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, in[x][offset + i * stride]); });
}
DUET_PROBLEM(StridedCopy);

}  // namespace duet
