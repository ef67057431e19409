// SPDX-License-Identifier: Apache-2.0
// Reference for quantise and dequantise: serial, the formulas of the contract (ops/elementwise/quantise.h) and nothing
// else. A slice is a chunk of elements.
#include "ops/elementwise/quantise.h"

#include "core/registry.h"
#include "ops/elementwise/quantise_formula.h"

namespace duet {

void Quantise::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(elements(), chunk, [&](int64_t i) {
    const int64_t channel = i / inner % c;
    const double level = unclamped_level(dtype, in[x][i], in[scale][channel], in[zero][channel], lo, hi);
    expect(q, i, std::clamp(level, static_cast<double>(lo), static_cast<double>(hi)));
  });
}
DUET_PROBLEM(Quantise);

void Dequantise::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(elements(), chunk, [&](int64_t i) {
    const int64_t channel = i / inner % c;
    expect(x, i, dequantised(dtype, in[q][i], in[scale][channel], quantised_zero(in[zero][channel], -128, 127)));
  });
}
DUET_PROBLEM(Dequantise);

}  // namespace duet
