// SPDX-License-Identifier: Apache-2.0
// The judge of adam and adamw.
#include "ops/optimiser/adam.h"

#include "core/registry.h"

namespace duet {

template <bool kDecoupled>
void AdamOf<kDecoupled>::reference(Inputs in, int64_t slice, Expect& expect) const {
  const bool skip = mixed && in[bad][0] != 0;
  const double done = in[step][0] + (skip ? 0 : 1);
  if (slice == chunks(n)) return expect(step, 0, done);
  const double rate = in[lr][0], correct1 = 1 - std::pow(beta1, done), correct2 = 1 - std::pow(beta2, done);
  const double coupled = kDecoupled ? 0 : weight_decay, factor = kDecoupled ? weight_decay * rate : 0;
  in_chunk(n, slice, [&](int64_t i) {
    if (skip) {
      for (const Slot s : {p, m, v, master}) expect(s, i, in[s][i]);
      return;
    }
    const double weight = mixed ? in[master][i] : in[p][i];
    const double d = in[g][i] + coupled * weight, d_size = std::abs(in[g][i]) + std::abs(coupled * weight);
    const double mean = beta1 * in[m][i] + (1 - beta1) * d;
    const double mean_size = std::abs(beta1 * in[m][i]) + (1 - beta1) * d_size;
    const double square = beta2 * in[v][i] + (1 - beta2) * d * d;
    const double square_size = beta2 * in[v][i] + (1 - beta2) * d_size * d_size;
    // An error of v reaches the root relatively as much as v is smaller than what was added up to it.
    const double scale = rate / correct1 / (std::sqrt(square / correct2) + eps);
    const double step_size = scale * mean_size * (1 + (square > 0 ? square_size / square : 1));
    expect(m, i, mean, mean_size);
    expect(v, i, square, square_size);
    mixed::expect_parameter(expect, p, master, mixed, i, weight - factor * weight - scale * mean,
                            std::abs(weight) * (1 + std::abs(factor)) + std::abs(step_size));
  });
}
template void Adam::reference(Inputs, int64_t, Expect&) const;
template void AdamW::reference(Inputs, int64_t, Expect&) const;
DUET_PROBLEM(Adam);
DUET_PROBLEM(AdamW);

}  // namespace duet
