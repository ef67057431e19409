// SPDX-License-Identifier: Apache-2.0
// Reference for unscale: serial, in double, the formula of the contract (ops/elementwise/unscale.h) and nothing else. A
// slice is a chunk of y; the last slice is the flag `bad`, which needs all elements.
#include "ops/elementwise/unscale.h"

#include "core/registry.h"

namespace duet {

void Unscale::reference(Inputs in, int64_t slice, Expect& expect) const {
  if (slice < chunks(n)) return in_chunk(n, slice, [&](int64_t i) { expect(y, i, in[g][i] / in[scale][0]); });
  bool any = false;
  for (int64_t i = 0; i < n; ++i) any = any || !std::isfinite(in[g][i]);
  expect(bad, 0, any);
}
DUET_PROBLEM(Unscale);

}  // namespace duet
