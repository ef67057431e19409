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
    const double d_abs_sum = std::abs(in[g][i]) + std::abs(weight_decay * weight);
    const double velocity = momentum * in[v][i] + d;
    const double velocity_abs_sum = std::abs(momentum * in[v][i]) + d_abs_sum;
    const double step = nesterov ? d + momentum * velocity : velocity;
    const double step_abs_sum = nesterov ? d_abs_sum + std::abs(momentum) * velocity_abs_sum : velocity_abs_sum;
    expect(v, i, velocity, velocity_abs_sum);
    mixed::expect_parameter(expect, p, master, mixed, i, weight - learning_rate * step,
                            std::abs(weight) + std::abs(learning_rate) * step_abs_sum);
  });
}
DUET_PROBLEM(Sgd);

}  // namespace duet
