// SPDX-License-Identifier: Apache-2.0
// One pack of each tensor per thread, by update_kernel (update.cuh).
#include "kernels/optimiser/update.cuh"
#include "ops/optimiser/sgd.h"

namespace duet::DUET_DEVICE {
namespace {
struct SgdRule {
  float momentum, weight_decay, learning_rate;
  bool nesterov;
  __device__ __forceinline__ float operator()(float g, float weight, float (&state)[1]) const {
    const float d = g + weight_decay * weight, velocity = momentum * state[0] + d;
    state[0] = velocity;
    return weight - learning_rate * (nesterov ? d + momentum * velocity : velocity);
  }
};
struct SgdUpdate {
  const float* lr;
  float momentum, weight_decay;
  bool nesterov;
  __device__ __forceinline__ SgdRule prepare() const { return {momentum, weight_decay, *lr, nesterov}; }
};

Plan sgd_tuned(const Sgd& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      for_state<T>(p, t, [&]<class S>(S* from, T* to, const int32_t* bad) {
        const SgdUpdate update{t[Sgd::lr].as<const float>(), static_cast<float>(p.momentum),
                               static_cast<float>(p.weight_decay), p.nesterov};
        launch_update(stream, update, bad, t[Sgd::g].as<const mixed::Gradient<T, S>>(), from,
                      States<S, 1>{{t[Sgd::v].as<S>()}}, to, p.n);
      });
    };
  });
}
DUET_REGISTER(sgd_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
