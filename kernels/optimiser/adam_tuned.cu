// SPDX-License-Identifier: Apache-2.0
// One pack of each tensor per thread, with all loads in flight together. A second launch of one thread counts the step.
#include "kernels/optimiser/adam.cuh"
#include "kernels/optimiser/update.cuh"

namespace duet::DUET_DEVICE {
namespace {
template <class P>
Plan plan_of(const P& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      for_state<T>(p, t, [&]<class S>(S* from, T* to, const int32_t* bad) {
        const States<S, 2> states{{t[P::m].template as<S>(), t[P::v].template as<S>()}};
        launch_update(stream, adam_update(p, t), bad, t[P::g].template as<const mixed::Gradient<T, S>>(), from, states,
                      to, p.n);
        launch(count_step_kernel, Grid{.stream = stream}, t[P::step].template as<int32_t>(), bad);
      });
    };
  });
}

Plan adam_tuned(const Adam& p, GpuContext& gpu) { return plan_of(p, gpu); }
DUET_REGISTER(adam_tuned);
Plan adamw_tuned(const AdamW& p, GpuContext& gpu) { return plan_of(p, gpu); }
DUET_REGISTER(adamw_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
