// SPDX-License-Identifier: Apache-2.0
// Reference for relu and its backward: serial, in double, the formulas of the contract (ops/elementwise/relu.h) and
// nothing else. A slice is a chunk of elements.
#include "ops/elementwise/relu.h"

#include "core/registry.h"

namespace duet {

void Relu::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, std::max(in[x][i], 0.0)); });
}
DUET_PROBLEM(Relu);

void ReluBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(dx, i, in[x][i] > 0 ? in[dy][i] : 0); });
}
DUET_PROBLEM(ReluBackward);

}  // namespace duet
