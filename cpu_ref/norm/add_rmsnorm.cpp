// SPDX-License-Identifier: Apache-2.0
// Reference for add_rmsnorm: serial, in double, the formula of the contract (ops/norm/add_rmsnorm.h) and nothing else.
// A slice is a row.
#include "ops/norm/add_rmsnorm.h"

#include "core/registry.h"
#include "cpu_ref/norm/moments.h"
#include "cpu_ref/norm/residual.h"

namespace duet {

void AddRmsNorm::reference(Inputs in, int64_t row, Expect& expect) const {
  const auto at = [&](int64_t c) {
    return reference_residual(in[x].dtype, in[x][row * cols + c], in[residual][row * cols + c]);
  };
  const ReferenceRms m = reference_rms(dtype, cols, eps, at);
  expect(rstd, row, m.rstd, m.rstd_error);

  // The sum. Scale.
  for (int64_t c = 0; c < cols; ++c) {
    const double v = at(c) * in[gamma][c];
    expect(s, row * cols + c, at(c));
    expect(y, row * cols + c, v * m.rstd, std::abs(v) * (m.rstd_error + m.rstd));
  }
}
DUET_PROBLEM(AddRmsNorm);

}  // namespace duet
