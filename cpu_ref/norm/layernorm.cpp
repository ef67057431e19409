// SPDX-License-Identifier: Apache-2.0
// Reference for layernorm and its backward: serial, in double, the formulas of the contract (ops/norm/layernorm.h) and
// nothing else. The variance takes a second pass, over deviations from the mean. A slice is a row; backward, the slices
// after those of the rows are columns of dgamma and dbeta.
#include "ops/norm/layernorm.h"

#include "core/registry.h"

namespace duet {

void LayerNorm::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto n = static_cast<double>(std::max<int64_t>(1, cols));
  const auto at = [&](int64_t c) { return in[x][row * cols + c]; };

  // Mean, then the variance from deviations.
  double sum = 0, abs_sum = 0, squares = 0;
  for (int64_t c = 0; c < cols; ++c) {
    sum += at(c);
    abs_sum += std::abs(at(c));
  }
  const double m = sum / n;
  for (int64_t c = 0; c < cols; ++c) squares += (at(c) - m) * (at(c) - m);
  const double scale = 1 / std::sqrt(squares / n + eps), shared = abs_sum / n * scale;  // shared: A of the contract
  expect(mean, row, m, abs_sum / n);
  expect(rstd, row, scale, scale * (1 + shared));

  // Normalise, scale, shift.
  for (int64_t c = 0; c < cols; ++c) {
    const double xhat = (at(c) - m) * scale, g = in[gamma][c], b = in[beta][c];
    expect(y, row * cols + c, xhat * g + b, std::abs(g) * (shared + std::abs(xhat) * (1 + shared)) + std::abs(b));
  }
}
DUET_PROBLEM(LayerNorm);

void LayerNormBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const auto xhat = [&](int64_t r, int64_t c) { return (in[x][r * cols + c] - in[mean][r]) * in[rstd][r]; };
  // The terms of xhat before they cancel: |x| + |mean|, scaled.
  const auto xhat_abs_sum = [&](int64_t r, int64_t c) {
    return (std::abs(in[x][r * cols + c]) + std::abs(in[mean][r])) * std::abs(in[rstd][r]);
  };

  // A column: dgamma and dbeta.
  if (slice >= rows) {
    const int64_t c = slice - rows;
    double g = 0, g_abs_sum = 0, b = 0, b_abs_sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const double d = in[dy][r * cols + c];
      g += d * xhat(r, c);
      g_abs_sum += std::abs(d) * xhat_abs_sum(r, c);
      b += d;
      b_abs_sum += std::abs(d);
    }
    expect(dgamma, c, g, g_abs_sum);
    return expect(dbeta, c, b, b_abs_sum);
  }

  // A row: dx.
  const int64_t r = slice;
  const auto n = static_cast<double>(cols);
  const auto g = [&](int64_t c) { return in[dy][r * cols + c] * in[gamma][c]; };
  double sum = 0, sum_abs_sum = 0, dot = 0, dot_abs_sum = 0;
  for (int64_t c = 0; c < cols; ++c) {
    sum += g(c);
    sum_abs_sum += std::abs(g(c));
    dot += g(c) * xhat(r, c);
    dot_abs_sum += std::abs(g(c)) * xhat_abs_sum(r, c);
  }
  for (int64_t c = 0; c < cols; ++c)
    expect(dx, r * cols + c, in[rstd][r] * (g(c) - sum / n - xhat(r, c) * dot / n),
           std::abs(in[rstd][r]) * (std::abs(g(c)) + sum_abs_sum / n + xhat_abs_sum(r, c) * dot_abs_sum / n));
}
DUET_PROBLEM(LayerNormBackward);

}  // namespace duet
