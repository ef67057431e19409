// SPDX-License-Identifier: Apache-2.0
// Reference for softmax and its backward: serial, in double, the formulas of the contract (ops/norm/softmax.h) and
// nothing else. A slice is a row.
#include "ops/norm/softmax.h"

#include "core/registry.h"
#include "core/term_sum.h"
#include "ops/summation.h"

namespace duet {

void Softmax::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto at = [&](int64_t c) { return in[x][row * cols + c]; };
  double max = -INFINITY;
  TermSum sum(kRun);
  for (int64_t c = 0; c < cols; ++c) max = std::max(max, at(c));
  for (int64_t c = 0; c < cols; ++c) sum.add(std::exp(at(c) - max));
  for (int64_t c = 0; c < cols; ++c) expect(y, row * cols + c, std::exp(at(c) - max) / sum.sum());
}
DUET_PROBLEM(Softmax);

void SoftmaxBackward::reference(Inputs in, int64_t row, Expect& expect) const {
  const int64_t first = row * cols;
  BoundedSum sum;
  for (int64_t i = first; i < first + cols; ++i) {
    const double term = in[y][i] * in[dy][i];
    sum.add(term, std::abs(term));
  }
  for (int64_t i = first; i < first + cols; ++i) {
    const double difference = in[dy][i] - sum.sum();
    expect(dx, i, in[y][i] * difference, std::abs(in[y][i]) * (sum.error() + 2 * std::abs(difference)));
  }
}
DUET_PROBLEM(SoftmaxBackward);

}  // namespace duet
