// SPDX-License-Identifier: Apache-2.0
// Reference for tanh and its backward: serial, in double, the formulas of the contract (ops/elementwise/tanh.h) and
// nothing else. A slice is a chunk of elements.
#include "ops/elementwise/tanh.h"

#include "core/registry.h"

namespace duet {

void Tanh::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) { expect(y, i, std::tanh(in[x][i])); });
}
DUET_PROBLEM(Tanh);

void TanhBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) {
    const double square = in[y][i] * in[y][i];
    expect(dx, i, in[dy][i] * (1 - square), std::abs(in[dy][i]) * (1 + square));
  });
}
DUET_PROBLEM(TanhBackward);

}  // namespace duet
