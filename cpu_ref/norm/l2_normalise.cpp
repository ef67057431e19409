// SPDX-License-Identifier: Apache-2.0
// Reference for l2_normalise and its backward: serial, in double, the formulas of the contract
// (ops/norm/l2_normalise.h) and nothing else. A slice is a row.
#include "ops/norm/l2_normalise.h"

#include "core/registry.h"

namespace duet {

void L2Normalise::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto at = [&](int64_t c) { return in[x][row * cols + c]; };
  const bool exact_squares = size_of(dtype) == 2;

  BoundedSum squares(kRun);
  if (exact_squares) squares.has_short_squares();
  for (int64_t c = 0; c < cols; ++c) squares.add(at(c) * at(c), exact_squares ? 0 : at(c) * at(c));
  const double norm = std::sqrt(squares.sum()), factor = 1 / (norm < eps ? eps : norm);
  const double factor_error = factor * ((squares.sum() > 0 ? squares.error() / squares.sum() / 2 : 0) + 5);
  expect(scale, row, factor, factor_error);
  for (int64_t c = 0; c < cols; ++c)
    expect(y, row * cols + c, at(c) * factor, std::abs(at(c)) * (factor_error + factor));
}
DUET_PROBLEM(L2Normalise);

void L2NormaliseBackward::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto of = [&](Slot s, int64_t c) { return in[s][row * cols + c]; };
  const double factor = in[scale][row];
  const bool short_row = factor > L2Normalise::max_scale(eps);

  BoundedSum dot(kRun);
  for (int64_t c = 0; c < cols; ++c) dot.add(of(y, c) * of(dy, c), std::abs(of(y, c) * of(dy, c)));
  const double sum = short_row ? 0 : dot.sum(), sum_error = short_row ? 0 : dot.error() + 2 * std::abs(dot.sum());
  for (int64_t c = 0; c < cols; ++c) {
    const double along = of(y, c) * sum, value = of(dy, c) - along;
    expect(dx, row * cols + c, factor * value,
           std::abs(factor) * (std::abs(of(y, c)) * sum_error + 2 * std::abs(value)));
  }
}
DUET_PROBLEM(L2NormaliseBackward);

}  // namespace duet
