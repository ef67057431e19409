// SPDX-License-Identifier: Apache-2.0
// Reference for gelu and its backward: serial, in double, the formulas of the contract (ops/elementwise/gelu.h) and
// nothing else. A slice is a chunk of elements.
#include "ops/elementwise/gelu.h"

#include "core/registry.h"

namespace duet {

void Gelu::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) {
    const gelu::Term t = form == GeluForm::tanh ? gelu::tanh_form(in[x][i]) : gelu::erf_form(in[x][i]);
    expect(y, i, t.value, t.abs_sum);
  });
}
DUET_PROBLEM(Gelu);

void GeluBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) {
    const gelu::Term t = form == GeluForm::tanh ? gelu::tanh_slope(in[x][i]) : gelu::erf_slope(in[x][i]);
    const double fraction = t.abs_sum - 1, error = gelu::kSlopeRoundings - 24 + 24 * fraction;
    expect(dx, i, in[dy][i] * t.value, std::abs(in[dy][i]) * error);
  });
}
DUET_PROBLEM(GeluBackward);

}  // namespace duet
