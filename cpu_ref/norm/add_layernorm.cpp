// SPDX-License-Identifier: Apache-2.0
// Reference for add_layernorm: serial, in double, the formula of the contract (ops/norm/add_layernorm.h) and nothing
// else. A slice is a row.
#include "ops/norm/add_layernorm.h"

#include "core/registry.h"
#include "cpu_ref/norm/moments.h"
#include "cpu_ref/norm/residual.h"

namespace duet {

void AddLayerNorm::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto at = [&](int64_t c) {
    return reference_residual(in[x].dtype, in[x][row * cols + c], in[residual][row * cols + c]);
  };

  // Mean, then the variance from deviations.
  const ReferenceMoments m = reference_moments(cols, eps, at);
  expect(mean, row, m.mean, m.mean_error);
  expect(rstd, row, m.rstd, m.rstd_error);

  // The sum. Normalise, scale, shift.
  for (int64_t c = 0; c < cols; ++c) {
    const double g = in[gamma][c], b = in[beta][c];
    expect(s, row * cols + c, at(c));
    expect(y, row * cols + c, (at(c) - m.mean) * m.rstd * g + b, normalised_error(m, at(c), g, b));
  }
}
DUET_PROBLEM(AddLayerNorm);

}  // namespace duet
