// SPDX-License-Identifier: Apache-2.0
// Reference for sigmoid and its backward: serial, in double, the formulas of the contract (ops/elementwise/sigmoid.h)
// and nothing else. A slice is a chunk of elements.
#include "ops/elementwise/sigmoid.h"

#include "core/registry.h"

namespace duet {

void Sigmoid::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, 1 / (1 + std::exp(-in[x][i]))); });
}
DUET_PROBLEM(Sigmoid);

void SigmoidBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(dx, i, in[dy][i] * in[y][i] * (1 - in[y][i])); });
}
DUET_PROBLEM(SigmoidBackward);

}  // namespace duet
