// SPDX-License-Identifier: Apache-2.0
// Reference for adam and adamw: serial, in double, the formulas of the contract (ops/optimiser/adam.h) and nothing
// else. A slice is a chunk of elements; the last slice is the step count.
#include "ops/optimiser/adam.h"

#include "core/registry.h"
#include "ops/optimiser/clip_grad_norm.h"

namespace duet {

template <bool kDecoupled>
void AdamOf<kDecoupled>::reference(Inputs in, int64_t slice, Expect& expect) const {
  const bool skip = mixed && in[bad][0] != 0;
  const double done = in[step][0] + (skip ? 0 : 1);
  if (slice == chunks(n)) return expect(step, 0, done);
  const double learning_rate = in[lr][0], correct1 = 1 - std::pow(beta1, done), correct2 = 1 - std::pow(beta2, done);
  const double coupled_decay = kDecoupled ? 0 : weight_decay,
               decoupled_decay = kDecoupled ? weight_decay * learning_rate : 0;
  const double clip = clips() ? std::min(1.0, max_norm / (in[norm()][0] + ClipGradNorm::kGuard)) : 1;
  in_chunk(n, slice, [&](int64_t i) {
    if (skip) {
      for (const Slot s : {p, m, v, master}) expect(s, i, in[s][i]);
      return;
    }
    const double weight = mixed ? in[master][i] : in[p][i];
    const double d = clip * in[g][i] + coupled_decay * weight,
                 d_abs_sum = std::abs(clip * in[g][i]) + std::abs(coupled_decay * weight);
    const double mean = beta1 * in[m][i] + (1 - beta1) * d;
    const double mean_abs_sum = std::abs(beta1 * in[m][i]) + (1 - beta1) * d_abs_sum;
    const double square = beta2 * in[v][i] + (1 - beta2) * d * d;
    const double square_abs_sum = beta2 * in[v][i] + (1 - beta2) * d_abs_sum * d_abs_sum;
    // v is a sum whose error is relative to square_abs_sum. Relative to v itself, and so to its root, the error is
    // larger by the quotient of the two.
    const double scale = learning_rate / correct1 / (std::sqrt(square / correct2) + eps);
    const double step_abs_sum = scale * mean_abs_sum * (1 + (square > 0 ? square_abs_sum / square : 1));
    expect(m, i, mean, mean_abs_sum);
    expect(v, i, square, square_abs_sum);
    mixed::expect_parameter(
        expect, p, master, mixed, i, weight - decoupled_decay * weight - scale * mean,
        (clips() ? 24 + 2 * kClipRoundings : 24) * step_abs_sum +
            (kDecoupled ? 3 * std::abs(decoupled_decay * weight) + std::abs(weight - decoupled_decay * weight) : 0));
  });
}
template void Adam::reference(Inputs, int64_t, Expect&) const;
template void AdamW::reference(Inputs, int64_t, Expect&) const;
DUET_PROBLEM(Adam);
DUET_PROBLEM(AdamW);

}  // namespace duet
