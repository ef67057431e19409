// SPDX-License-Identifier: Apache-2.0
// The judge of sgd.
#include "ops/optimiser/sgd.h"

#include "core/registry.h"

namespace duet {

void Sgd::reference(Inputs in, int64_t chunk, Expect& expect) const {
  const double rate = in[lr][0];
  const bool skip = mixed && in[bad][0] != 0;
  in_chunk(n, chunk, [&](int64_t i) {
    if (skip) {
      expect(p, i, in[p][i]);
      expect(master, i, in[master][i]);
      expect(v, i, in[v][i]);
      return;
    }
    const double weight = mixed ? in[master][i] : in[p][i];
    const double d = in[g][i] + weight_decay * weight;
    const double d_size = std::abs(in[g][i]) + std::abs(weight_decay * weight);
    const double velocity = momentum * in[v][i] + d;
    const double velocity_size = std::abs(momentum * in[v][i]) + d_size;
    const double step = nesterov ? d + momentum * velocity : velocity;
    const double step_size = nesterov ? d_size + std::abs(momentum) * velocity_size : velocity_size;
    expect(v, i, velocity, velocity_size);
    mixed::expect_parameter(expect, p, master, mixed, i, weight - rate * step,
                            std::abs(weight) + std::abs(rate) * step_size);
  });
}
DUET_PROBLEM(Sgd);

}  // namespace duet
