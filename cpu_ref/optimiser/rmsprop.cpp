// SPDX-License-Identifier: Apache-2.0
// Reference for rmsprop: serial, in double, the formula of the contract (ops/optimiser/rmsprop.h) and nothing else. A
// slice is a chunk of elements.
#include "ops/optimiser/rmsprop.h"

#include "core/registry.h"

namespace duet {

void Rmsprop::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const double learning_rate = in[lr][0];
  const bool skip = mixed && in[bad][0] != 0;
  in_chunk(n, chunk, [&](int64_t i) {
    if (skip) {
      expect(p, i, in[p][i]);
      expect(master, i, in[master][i]);
      expect(v, i, in[v][i]);
      return;
    }
    const double weight = mixed ? in[master][i] : in[p][i];
    const double square = alpha * in[v][i] + (1 - alpha) * in[g][i] * in[g][i];
    const double step = learning_rate * in[g][i] / (std::sqrt(square) + eps);
    expect(v, i, square, square);
    mixed::expect_parameter(expect, p, master, mixed, i, weight - step, std::abs(weight) + std::abs(step));
  });
}
DUET_PROBLEM(Rmsprop);

}  // namespace duet
