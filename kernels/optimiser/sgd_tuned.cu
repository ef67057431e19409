// One 16-byte pack of each tensor per thread; the three loads are in flight together.
#include "kernels/vector.cuh"
#include "ops/optimiser/sgd.h"

namespace duet::DUET_DEVICE {
namespace {
// A map_grid(n, kSize), no shared memory. g, p, v: (n), disjoint; lr: (1).
template <class T, int kSize>
__global__ void __launch_bounds__(kMapBlock)
    sgd_kernel(const T* g, const float* lr, T* p, T* v, int64_t n, float momentum, float weight_decay, bool nesterov) {
  const float rate = *lr;
  for_my_pack<kSize>(n, [&]<int kWidth>(int64_t i) {
    const auto gradient = load_pack<kWidth>(g + i);
    auto parameter = load_pack<kWidth>(p + i), velocity = load_pack<kWidth>(v + i);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float d = float(gradient.at[e]) + weight_decay * float(parameter.at[e]);
      const float speed = momentum * float(velocity.at[e]) + d;
      velocity.at[e] = T(speed);
      parameter.at[e] = T(float(parameter.at[e]) - rate * (nesterov ? d + momentum * speed : speed));
    }
    store_pack(p + i, parameter);
    store_pack(v + i, velocity);
  });
}

Plan sgd_tuned(const Sgd& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const T* g = t[Sgd::g].as<const T>();
      const float* lr = t[Sgd::lr].as<const float>();
      const float momentum = static_cast<float>(p.momentum), weight_decay = static_cast<float>(p.weight_decay);
      T *parameters = t[Sgd::p].as<T>(), *v = t[Sgd::v].as<T>();
      if (aligned16(g, parameters, v))
        launch(sgd_kernel<T, kPack<T>>, map_grid(p.n, kPack<T>, stream), g, lr, parameters, v, p.n, momentum,
               weight_decay, p.nesterov);
      else
        launch(sgd_kernel<T, 1>, map_grid(p.n, 1, stream), g, lr, parameters, v, p.n, momentum, weight_decay,
               p.nesterov);
    };
  });
}
DUET_REGISTER(sgd_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
