// SPDX-License-Identifier: Apache-2.0
// The constants of one step of Adam, formed in double once.
#pragma once
#include <cmath>
#include <cstdint>

namespace duet {

// m = keep1 m + take1 d,  v = keep2 v + take2 d^2,  p -= shrink p + rate m / (correct sqrt(v) + eps), with d = g + decay p
struct AdamStep {
  float keep1, take1, keep2, take2, decay, shrink, rate, correct, eps;
};

AdamStep adam_step(const auto& p, bool decoupled, double lr, int32_t done) {
  const auto f = [](double v) { return static_cast<float>(v); };
  return {.keep1 = f(p.beta1),
          .take1 = f(1 - p.beta1),
          .keep2 = f(p.beta2),
          .take2 = f(1 - p.beta2),
          .decay = f(decoupled ? 0 : p.weight_decay),
          .shrink = f(decoupled ? lr * p.weight_decay : 0),
          .rate = f(lr / (1 - std::pow(p.beta1, done))),
          .correct = f(1 / std::sqrt(1 - std::pow(p.beta2, done))),
          .eps = f(p.eps)};
}

}  // namespace duet
