// SPDX-License-Identifier: Apache-2.0
// The arithmetic of Adam and AdamW, and the count of their steps.
#pragma once
#include <cmath>

#include "simt/launch.h"
#include "ops/optimiser/adam.h"

namespace duet::DUET_DEVICE {

// One step: m = keep1 m + take1 d,  v = keep2 v + take2 d^2,  p -= shrink p + rate m / (correct sqrt(v) + eps), where
// d = g + decay p.
struct AdamRule {
  float keep1, take1, keep2, take2, decay, shrink, rate, correct, eps;
  __device__ __forceinline__ float operator()(float g, float weight, float (&state)[2]) const {
    const float d = g + decay * weight;
    state[0] = keep1 * state[0] + take1 * d;
    state[1] = keep2 * state[1] + take2 * d * d;
    return weight - shrink * weight - rate * state[0] / (sqrtf(state[1]) * correct + eps);
  }
};

// What a plan knows of it; lr and the steps done lie in device memory. 1 - beta^t is -expm1(t log beta), which cancels
// nothing: 1 - powf(0.999f, 1) would be off by 6e-5 of its value.
struct AdamUpdate {
  const float* lr;
  const int32_t* step;
  float keep1, take1, keep2, take2, log1, log2, decay, eps;
  bool decoupled;
  __device__ __forceinline__ AdamRule prepare() const {
    const float t = float(*step + 1), rate = *lr;
    return {keep1,
            take1,
            keep2,
            take2,
            decoupled ? 0 : decay,
            decoupled ? rate * decay : 0,
            rate / -expm1f(t * log1),
            1 / sqrtf(-expm1f(t * log2)),
            eps};
  }
};

template <bool kDecoupled>
AdamUpdate adam_update(const AdamOf<kDecoupled>& p, Args t) {
  using P = AdamOf<kDecoupled>;
  const auto f = [](double v) { return static_cast<float>(v); };
  return {t[P::lr].template as<const float>(),
          t[P::step].template as<int32_t>(),
          f(p.beta1),
          f(1 - p.beta1),
          f(p.beta2),
          f(1 - p.beta2),
          f(std::log(p.beta1)),
          f(std::log(p.beta2)),
          f(p.weight_decay),
          f(p.eps),
          kDecoupled};
}

// One thread, after the update: every block of that reads the steps done before. bad: null, or (1).
static __global__ void count_step_kernel(int32_t* step, const int32_t* bad) {
  if (!bad || *bad == 0) ++*step;
}

}  // namespace duet::DUET_DEVICE
