// SPDX-License-Identifier: Apache-2.0
// The arithmetic of Adam and AdamW, and the kernel that counts their steps; used by adam_naive.cu and adam_tuned.cu.
#pragma once
#include <cmath>

#include "kernels/optimiser/clip.cuh"
#include "simt/launch.h"
#include "ops/optimiser/adam.h"

namespace duet::DUET_DEVICE {

// One step: m = beta1 m + (1 - beta1) d,  v = beta2 v + (1 - beta2) d^2,
// p -= shrink p + step_size m / (correct sqrt(v) + eps), where d = clip g + decay p.
struct AdamRule {
  float clip, beta1, one_minus_beta1, beta2, one_minus_beta2, decay, shrink, step_size, correct, eps;
  __device__ __forceinline__ float operator()(float g, float weight, float (&state)[2]) const {
    const float d = clip * g + decay * weight;
    state[0] = beta1 * state[0] + one_minus_beta1 * d;
    state[1] = beta2 * state[1] + one_minus_beta2 * d * d;
    return weight - shrink * weight - step_size * state[0] / (sqrtf(state[1]) * correct + eps);
  }
};

// The update as the plan prepares it; the learning rate and the number of steps done are in device memory. 1 - beta^t
// is computed as -expm1(t log beta), which has no cancellation: 1 - powf(0.999f, 1) has a relative error of 6e-5.
struct AdamUpdate {
  Clip clip;  // norm: null where nothing is clipped
  const float* lr;
  const int32_t* step;
  float beta1, one_minus_beta1, beta2, one_minus_beta2, log_beta1, log_beta2, decay, eps;
  bool decoupled;
  __device__ __forceinline__ AdamRule prepare() const {
    const float t = float(*step + 1), learning_rate = *lr;
    return {clip.norm ? clip.factor() : 1,
            beta1,
            one_minus_beta1,
            beta2,
            one_minus_beta2,
            decoupled ? 0 : decay,
            decoupled ? learning_rate * decay : 0,
            learning_rate / -expm1f(t * log_beta1),
            1 / sqrtf(-expm1f(t * log_beta2)),
            eps};
  }
};

template <bool kDecoupled>
AdamUpdate adam_update(const AdamOf<kDecoupled>& p, Args t) {
  using P = AdamOf<kDecoupled>;
  const auto f = [](double v) { return static_cast<float>(v); };
  const float* norm = p.clips() ? t[p.norm()].template as<const float>() : nullptr;
  return {{norm, f(p.max_norm)},
          t[P::lr].template as<const float>(),
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

// One thread, launched after the update, whose blocks all read the number of steps before it. bad: null, or (1).
static __global__ void count_step_kernel(int32_t* step, const int32_t* bad) {
  if (!bad || *bad == 0) ++*step;
}

}  // namespace duet::DUET_DEVICE
