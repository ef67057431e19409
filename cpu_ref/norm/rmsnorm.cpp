// SPDX-License-Identifier: Apache-2.0
// Reference for rmsnorm and its backward: serial, in double, the formulas of the contract (ops/norm/rmsnorm.h) and
// nothing else. A slice is a row; backward, the slices after those of the rows are columns of dgamma.
#include "ops/norm/rmsnorm.h"

#include "core/registry.h"
#include "cpu_ref/norm/moments.h"

namespace duet {

void RmsNorm::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto at = [&](int64_t c) { return in[x][row * cols + c]; };
  const ReferenceRms m = reference_rms(dtype, cols, eps, at);
  expect(rstd, row, m.rstd, m.rstd_error);

  // Scale.
  for (int64_t c = 0; c < cols; ++c) {
    const double v = at(c) * in[gamma][c];
    expect(y, row * cols + c, v * m.rstd, std::abs(v) * (m.rstd_error + m.rstd));
  }
}
DUET_PROBLEM(RmsNorm);

void RmsNormBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const auto xhat = [&](int64_t r, int64_t c) { return in[x][r * cols + c] * in[rstd][r]; };

  // A column: dgamma.
  if (slice >= rows) {
    const int64_t c = slice - rows;
    BoundedSum sum(kRun);
    for (int64_t r = 0; r < rows; ++r) {
      const double term = in[dy][r * cols + c] * xhat(r, c);
      sum.add(term, 2 * std::abs(term));
    }
    return expect(dgamma, c, sum.sum(), sum.error());
  }

  // A row: dx.
  const int64_t r = slice;
  const auto n = static_cast<double>(cols);
  const auto g = [&](int64_t c) { return in[dy][r * cols + c] * in[gamma][c]; };
  BoundedSum dot(kRun);
  for (int64_t c = 0; c < cols; ++c) dot.add(g(c) * xhat(r, c), 3 * std::abs(g(c) * xhat(r, c)));
  const double dot_error = dot.error() + 6 * std::abs(dot.sum());
  for (int64_t c = 0; c < cols; ++c)
    expect(dx, r * cols + c, in[rstd][r] * (g(c) - xhat(r, c) * dot.sum() / n),
           std::abs(in[rstd][r]) * (3 * std::abs(g(c)) + std::abs(xhat(r, c)) * dot_error / n));
}
DUET_PROBLEM(RmsNormBackward);

}  // namespace duet
