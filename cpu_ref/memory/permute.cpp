// SPDX-License-Identifier: Apache-2.0
// Reference for permute: serial, in double, the formula of the contract (ops/memory/permute.h) and nothing else. A
// slice is one run of D elements of y.
#include "ops/memory/permute.h"

#include "core/registry.h"

namespace duet {

void Permute::reference(Inputs in, int64_t row_of_y, Expect& expect) const {
  int64_t from;  // the run of x that this run of y copies
  if (inverse) {
    const int64_t h = row_of_y % H, s = row_of_y / H % split, t = row_of_y / H / split % T,
                  b = row_of_y / H / split / T;
    from = ((s * B + b) * H + h) * T + t;
  } else {
    const int64_t t = row_of_y % T, h = row_of_y / T % H, b = row_of_y / T / H % B, s = row_of_y / T / H / B;
    from = ((b * T + t) * split + s) * H + h;
  }
  for (int64_t d = 0; d < D; ++d) expect(y, row_of_y * D + d, in[x][from * D + d]);
}
DUET_PROBLEM(Permute);

}  // namespace duet
