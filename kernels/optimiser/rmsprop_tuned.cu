// SPDX-License-Identifier: Apache-2.0
// One pack of each tensor per thread, by update_kernel (update.cuh).
#include "kernels/optimiser/update.cuh"
#include "ops/optimiser/rmsprop.h"

namespace duet::DUET_DEVICE {
namespace {
struct RmspropRule {
  float alpha, one_minus_alpha, eps, learning_rate;
  __device__ __forceinline__ float operator()(float g, float weight, float (&state)[1]) const {
    state[0] = alpha * state[0] + one_minus_alpha * g * g;
    return weight - learning_rate * g / (sqrtf(state[0]) + eps);
  }
};
struct RmspropUpdate {
  const float* lr;
  float alpha, one_minus_alpha, eps;
  __device__ __forceinline__ RmspropRule prepare() const { return {alpha, one_minus_alpha, eps, *lr}; }
};

Plan rmsprop_tuned(const Rmsprop& p, GpuContext& gpu) {
  using P = Rmsprop;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      for_state<T>(p, t, [&]<class S>(S* from, T* to, const int32_t* bad) {
        const RmspropUpdate update{t[P::lr].as<const float>(), static_cast<float>(p.alpha),
                                   static_cast<float>(1 - p.alpha), static_cast<float>(p.eps)};
        launch_update(stream, update, bad, t[P::g].as<const mixed::Gradient<T, S>>(), from,
                      States<S, 1>{{t[P::v].as<S>()}}, to, p.n);
      });
    };
  });
}
DUET_REGISTER(rmsprop_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
