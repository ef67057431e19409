// SPDX-License-Identifier: Apache-2.0
// Reference for study/coalescing: serial, in double, the formula of the contract and nothing else.
#include "ops/study/coalescing.h"

#include "core/registry.h"

namespace duet {

void Coalescing::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const int64_t w = elements();
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, in[x][offset + i / w * stride * w + i % w]); });
}
DUET_PROBLEM(Coalescing);

}  // namespace duet
