// SPDX-License-Identifier: Apache-2.0
// Reference for max and argmax: serial, in double, the formulas of the contract (ops/reduction/max.h) and nothing else.
// A slice is one result.
#include "ops/reduction/max.h"

#include "core/registry.h"

namespace duet {
namespace {

// The place of the largest of result i, along the axis.
int64_t place(const auto& p, Inputs::Values x, int64_t i) {
  const auto at = [&](int64_t k) { return x[p.axis == 1 ? i * p.cols + k : k * p.cols + i]; };
  int64_t best = 0;
  for (int64_t k = 1; k < p.length(); ++k)
    if (ranking::above(at(k), at(best))) best = k;
  return best;
}

}  // namespace

void Max::reference(Inputs in, int64_t i, Expect& expect) const {
  const int64_t k = place(*this, in[x], i);
  expect(y, i, in[x][axis == 1 ? i * cols + k : k * cols + i]);
}
DUET_PROBLEM(Max);

void ArgMax::reference(Inputs in, int64_t i, Expect& expect) const {
  expect(index, i, static_cast<double>(place(*this, in[x], i)));
}
DUET_PROBLEM(ArgMax);

}  // namespace duet
