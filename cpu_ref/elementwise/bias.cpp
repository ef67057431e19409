// SPDX-License-Identifier: Apache-2.0
// Reference for bias and its backward: serial, in double, the formulas of the contract (ops/elementwise/bias.h) and
// nothing else. A slice is a chunk of elements; backward it is a channel.
#include "ops/elementwise/bias.h"

#include "core/registry.h"

namespace duet {

void Bias::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(elements(), chunk, [&](int64_t i) {
    const double sum = in[x][i] + in[bias][i / inner % c];
    expect(y, i, act == Act::relu ? std::max(sum, 0.0) : sum);
  });
}
DUET_PROBLEM(Bias);

void BiasBackward::reference(Inputs in, int64_t channel, Expect& expect) const {
  BoundedSum sum(kRun);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = (o * c + channel) * inner, end = i + inner; i < end; ++i) {
      const double g = act == Act::relu && !(in[y][i] > 0) ? 0 : in[dy][i];
      sum.add(g);
      if (act == Act::relu) expect(dx, i, g);
    }
  expect(dbias, channel, sum.sum(), sum.error());
}
DUET_PROBLEM(BiasBackward);

}  // namespace duet
