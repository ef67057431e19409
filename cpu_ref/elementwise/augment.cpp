// SPDX-License-Identifier: Apache-2.0
// Reference for augment: serial, in double, the formula of the contract (ops/elementwise/augment.h) and nothing else. A
// slice is a row of a plane of y.
#include "ops/elementwise/augment.h"

#include "core/registry.h"

namespace duet {

void Augment::reference(Inputs in, int64_t slice, Expect& expect) const {
  const int64_t i = slice % ho, channel = slice / ho % c, image = slice / ho / c;
  const auto row = static_cast<int64_t>(in[top][image]) + i;
  const double m = in[mean][channel], d = in[deviation][channel];
  for (int64_t j = 0; j < wo; ++j) {
    const int64_t column = static_cast<int64_t>(in[left][image]) + (in[flip][image] != 0 ? wo - 1 - j : j);
    const bool inside = row >= 0 && row < h && column >= 0 && column < w;
    const double value = inside ? in[x][((image * h + row) * w + column) * c + channel] / 255 : 0;
    expect(y, slice * wo + j, (value - m) / d, 2 * (std::abs(value / d) + std::abs(m / d)));
  }
}
DUET_PROBLEM(Augment);

}  // namespace duet
