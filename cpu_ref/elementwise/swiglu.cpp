// SPDX-License-Identifier: Apache-2.0
// Reference for swiglu and its backward: serial, in double, the formulas of the contract (ops/elementwise/swiglu.h) and
// nothing else. A slice is a chunk of elements.
#include "ops/elementwise/swiglu.h"

#include "core/registry.h"

namespace duet {
namespace {
double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }
// What a sigmoid in f32 may lose where it becomes 0, in units of the roundoff of f32.
double lost() { return underflow(DType::f32) / kF32Roundoff; }
}  // namespace

void SwiGlu::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) {
    const double g = in[gate][i], u = in[up][i], value = g * sigmoid(g) * u;
    expect(y, i, value, 7 * std::abs(value) + std::abs(g * u) * lost());
  });
}
DUET_PROBLEM(SwiGlu);

void SwiGluBackward::reference(Inputs in, int64_t chunk, Expect& expect) const {
  in_chunk(n, chunk, [&](int64_t i) {
    const double g = in[gate][i], u = in[up][i], d = in[dy][i], s = sigmoid(g), other = sigmoid(-g);
    const double slope = s * (1 + g * other), size = s * (1 + std::abs(g) * other);
    const double slope_error = 6 * size + s * std::abs(g) * (6 * s + 8 * other) + 3 * size;
    expect(dgate, i, d * u * slope, std::abs(d * u) * (slope_error + (1 + std::abs(g)) * lost()));
    const double of_up = d * g * s;
    expect(dup, i, of_up, 8 * std::abs(of_up) + std::abs(d * g) * lost());
  });
}
DUET_PROBLEM(SwiGluBackward);

}  // namespace duet
