// SPDX-License-Identifier: Apache-2.0
// Reference for fake_quantise and its backward: serial, the formulas of the contract (ops/elementwise/fake_quantise.h)
// and nothing else. A slice is a chunk of elements.
#include "ops/elementwise/fake_quantise.h"

#include "core/registry.h"
#include "ops/elementwise/quantise_formula.h"

namespace duet {

void FakeQuantise::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(elements(), chunk, [&](int64_t i) {
    const int64_t channel = i / inner % c;
    const double s = in[scale][channel], z = quantised_zero(in[zero][channel], lo, hi);
    const double level = unclamped_level(dtype, in[x][i], s, z, lo, hi);
    expect(y, i, dequantised(dtype, std::clamp(level, static_cast<double>(lo), static_cast<double>(hi)), s, z));
  });
}
DUET_PROBLEM(FakeQuantise);

void FakeQuantiseBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(elements(), chunk, [&](int64_t i) {
    const int64_t channel = i / inner % c;
    const double level = unclamped_level(dtype, in[x][i], in[scale][channel], in[zero][channel], lo, hi);
    expect(dx, i, level >= static_cast<double>(lo) && level <= static_cast<double>(hi) ? in[dy][i] : 0);
  });
}
DUET_PROBLEM(FakeQuantiseBackward);

}  // namespace duet
