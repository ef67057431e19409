// SPDX-License-Identifier: Apache-2.0
// Reference for accuracy: serial, in double, the formula of the contract (ops/reduction/accuracy.h) and nothing else.
// There is one slice.
#include "ops/reduction/accuracy.h"

#include "core/registry.h"

namespace duet {

void Accuracy::reference(Inputs in, int64_t, Expect& expect) const {
  int64_t right = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const auto wanted = static_cast<int64_t>(in[label][r]);
    if (wanted < 0 || wanted >= cols) continue;
    const auto at = [&](int64_t c) { return in[x][r * cols + c]; };
    int64_t before = 0;
    for (int64_t c = 0; c < cols; ++c)
      before += ranking::above(at(c), at(wanted)) || (c < wanted && !ranking::above(at(wanted), at(c)));
    right += before < k;
  }
  expect(correct, 0, static_cast<double>(right));
}
DUET_PROBLEM(Accuracy);

}  // namespace duet
