// SPDX-License-Identifier: Apache-2.0
// Reference for sgd: serial, in double, the formula of the contract (ops/optimiser/sgd.h) and nothing else. A slice is
// a chunk of elements.
#include "ops/optimiser/sgd.h"

#include "core/registry.h"

namespace duet {

void Sgd::reference(Inputs in, int64_t chunk, Expect& expect) const {
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
    const double d = in[g][i] + weight_decay * weight;
    const double d_error = weight_decay != 0 ? 2 * std::abs(weight_decay * weight) + std::abs(d) : 0;
    const double velocity = momentum * in[v][i] + d;
    const double velocity_error = 2 * std::abs(momentum * in[v][i]) + d_error;
    const double step = nesterov ? d + momentum * velocity : velocity;
    const double step_error =
        nesterov ? d_error + std::abs(momentum) * (velocity_error + 3 * std::abs(velocity)) : velocity_error;
    expect(v, i, velocity, velocity_error);
    mixed::expect_parameter(expect, p, master, mixed, i, weight - learning_rate * step,
                            std::abs(learning_rate) * (step_error + 2 * std::abs(step)));
  });
}
DUET_PROBLEM(Sgd);

}  // namespace duet
