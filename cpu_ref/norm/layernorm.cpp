// SPDX-License-Identifier: Apache-2.0
// The judge of layernorm and its backward: two passes in double.
#include "ops/norm/layernorm.h"

#include "core/registry.h"

namespace duet {

void LayerNorm::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto n = static_cast<double>(std::max<int64_t>(1, cols));
  const auto at = [&](int64_t c) { return in[x][row * cols + c]; };
  double sum = 0, size = 0, squares = 0;
  for (int64_t c = 0; c < cols; ++c) {
    sum += at(c);
    size += std::abs(at(c));
  }
  const double m = sum / n;
  for (int64_t c = 0; c < cols; ++c) squares += (at(c) - m) * (at(c) - m);
  const double scale = 1 / std::sqrt(squares / n + eps), shared = size / n * scale;  // shared: A of the contract
  expect(mean, row, m, size / n);
  expect(rstd, row, scale, scale * (1 + shared));
  for (int64_t c = 0; c < cols; ++c) {
    const double xhat = (at(c) - m) * scale, g = in[gamma][c], b = in[beta][c];
    expect(y, row * cols + c, xhat * g + b, std::abs(g) * (shared + std::abs(xhat) * (1 + shared)) + std::abs(b));
  }
}
DUET_PROBLEM(LayerNorm);

void LayerNormBackward::reference(Inputs in, int64_t slice, Expect& expect) const {
  const auto xhat = [&](int64_t r, int64_t c) { return (in[x][r * cols + c] - in[mean][r]) * in[rstd][r]; };
  const auto size = [&](int64_t r, int64_t c) {
    return (std::abs(in[x][r * cols + c]) + std::abs(in[mean][r])) * std::abs(in[rstd][r]);
  };
  if (slice >= rows) {
    const int64_t c = slice - rows;
    double g = 0, g_size = 0, b = 0, b_size = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const double d = in[dy][r * cols + c];
      g += d * xhat(r, c);
      g_size += std::abs(d) * size(r, c);
      b += d;
      b_size += std::abs(d);
    }
    expect(dgamma, c, g, g_size);
    return expect(dbeta, c, b, b_size);
  }
  const int64_t r = slice;
  const auto n = static_cast<double>(cols);
  const auto g = [&](int64_t c) { return in[dy][r * cols + c] * in[gamma][c]; };
  double sum = 0, sum_size = 0, dot = 0, dot_size = 0;
  for (int64_t c = 0; c < cols; ++c) {
    sum += g(c);
    sum_size += std::abs(g(c));
    dot += g(c) * xhat(r, c);
    dot_size += std::abs(g(c)) * size(r, c);
  }
  for (int64_t c = 0; c < cols; ++c)
    expect(dx, r * cols + c, in[rstd][r] * (g(c) - sum / n - xhat(r, c) * dot / n),
           std::abs(in[rstd][r]) * (std::abs(g(c)) + sum_size / n + size(r, c) * dot_size / n));
}
DUET_PROBLEM(LayerNormBackward);

}  // namespace duet
