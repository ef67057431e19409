// SPDX-License-Identifier: Apache-2.0
// The constants of one step of adam or adamw. They are formed in double, once a step, by adam_tuned.cpp.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/optimiser/clip_grad_norm.h"

namespace duet {

// One element, with d = clip g + coupled_decay p:
//   m = beta1 m + one_minus_beta1 d
//   v = beta2 v + one_minus_beta2 d^2
//   p -= decoupled_decay p + step_size m / (inv_root_correction2 sqrt(v) + eps)
// step_size is the learning rate over the bias correction 1 - beta1^t of m; inv_root_correction2 is 1 / sqrt(1 -
// beta2^t).
struct AdamStep {
  float clip;
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float coupled_decay, decoupled_decay;  // one of them is 0: adam adds decay to the gradient, adamw to the step
  float step_size, inv_root_correction2, eps;
};

// done: steps taken, this one included. norm: of all gradients, where p clips.
AdamStep adam_step(const auto& p, bool decoupled, double learning_rate, int32_t done, double norm) {
  const auto f = [](double v) { return static_cast<float>(v); };
  return {.clip = f(p.clips() ? std::min(1.0, p.max_norm / (norm + ClipGradNorm::kGuard)) : 1),
          .beta1 = f(p.beta1),
          .one_minus_beta1 = f(1 - p.beta1),
          .beta2 = f(p.beta2),
          .one_minus_beta2 = f(1 - p.beta2),
          .coupled_decay = f(decoupled ? 0 : p.weight_decay),
          .decoupled_decay = f(decoupled ? learning_rate * p.weight_decay : 0),
          .step_size = f(learning_rate / (1 - std::pow(p.beta1, done))),
          .inv_root_correction2 = f(1 / std::sqrt(1 - std::pow(p.beta2, done))),
          .eps = f(p.eps)};
}

}  // namespace duet
