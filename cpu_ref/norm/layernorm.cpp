// SPDX-License-Identifier: Apache-2.0
// Reference for layernorm and its backward: serial, in double, the formulas of the contract (ops/norm/layernorm.h) and
// nothing else. The variance takes a second pass, over deviations from the mean. A slice is a row; backward, the slices
// after those of the rows are columns of dgamma and dbeta.
#include "ops/norm/layernorm.h"

#include "core/registry.h"
#include "cpu_ref/norm/moments.h"

namespace duet {

void LayerNorm::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto at = [&](int64_t c) { return in[x][row * cols + c]; };

  // Mean, then the variance from deviations.
  const ReferenceMoments m = reference_moments(cols, eps, at);
  expect(mean, row, m.mean, m.mean_error);
  expect(rstd, row, m.rstd, m.rstd_error);

  // Normalise, scale, shift.
  for (int64_t c = 0; c < cols; ++c) {
    const double g = in[gamma][c], b = in[beta][c];
    expect(y, row * cols + c, (at(c) - m.mean) * m.rstd * g + b, normalised_error(m, at(c), g, b));
  }
}
DUET_PROBLEM(LayerNorm);

void LayerNormBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const auto xhat = [&](int64_t r, int64_t c) { return (in[x][r * cols + c] - in[mean][r]) * in[rstd][r]; };
  // H of the contract: the terms of xhat before they cancel.
  const auto xhat_abs_sum = [&](int64_t r, int64_t c) {
    return (std::abs(in[x][r * cols + c]) + std::abs(in[mean][r])) * std::abs(in[rstd][r]);
  };

  // A column: dgamma and dbeta.
  if (slice >= rows) {
    const int64_t c = slice - rows;
    BoundedSum g(kRun), b(kRun);
    for (int64_t r = 0; r < rows; ++r) {
      const double d = in[dy][r * cols + c];
      g.add(d * xhat(r, c), 3 * std::abs(d) * xhat_abs_sum(r, c));
      b.add(d);
    }
    expect(dgamma, c, g.sum(), g.error());
    return expect(dbeta, c, b.sum(), b.error());
  }

  // A row: dx.
  const int64_t r = slice;
  const auto n = static_cast<double>(cols);
  const auto g = [&](int64_t c) { return in[dy][r * cols + c] * in[gamma][c]; };
  BoundedSum sum(kRun), dot(kRun);
  for (int64_t c = 0; c < cols; ++c) {
    sum.add(g(c), std::abs(g(c)));
    dot.add(g(c) * xhat(r, c), 4 * std::abs(g(c)) * xhat_abs_sum(r, c));
  }
  const double sums_error = sum.error() + 6 * std::abs(sum.sum());
  for (int64_t c = 0; c < cols; ++c) {
    const double of_dot = std::abs(xhat(r, c)) * dot.error() + 8 * xhat_abs_sum(r, c) * std::abs(dot.sum());
    expect(dx, r * cols + c, in[rstd][r] * (g(c) - sum.sum() / n - xhat(r, c) * dot.sum() / n),
           std::abs(in[rstd][r]) * (4 * std::abs(g(c)) + (sums_error + of_dot) / n));
  }
}
DUET_PROBLEM(LayerNormBackward);

}  // namespace duet
