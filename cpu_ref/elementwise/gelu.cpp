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
    expect(dx, i, in[dy][i] * t.value, std::abs(in[dy][i]) * gelu::slope_error(t));
  });
}
DUET_PROBLEM(GeluBackward);

}  // namespace duet
