// SPDX-License-Identifier: Apache-2.0
// Reference for dropout and its backward: serial, in double, the formulas of the contract (ops/elementwise/dropout.h)
// and nothing else. A slice is a chunk of elements.
#include "ops/elementwise/dropout.h"

#include "core/registry.h"

namespace duet {

void Dropout::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const auto threshold = dropout_threshold(p), key = static_cast<uint64_t>(seed);
  const auto first = static_cast<int32_t>(in[offset][0]);
  const double scale = dropout_scale(p);
  in_chunk(n, chunk, [&](int64_t i) {
    const bool keep = dropout_keeps(dropout_index(first, i), key, threshold);
    expect(mask, i, keep);
    expect(y, i, keep ? in[x][i] * scale : 0);
  });
}
DUET_PROBLEM(Dropout);

void DropoutBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const double scale = dropout_scale(p);
  in_chunk(n, chunk, [&](int64_t i) { expect(dx, i, in[mask][i] != 0 ? in[dy][i] * scale : 0); });
}
DUET_PROBLEM(DropoutBackward);

}  // namespace duet
