// SPDX-License-Identifier: Apache-2.0
// Forward: total.cuh, in which blocks add packs of 16 bytes and one block adds their sums. Backward: map_kernel
// (vector.cuh), with one 16-byte access per thread and tensor.
#include "kernels/reduction/total.cuh"
#include "ops/loss/mse.h"

namespace duet::DUET_DEVICE {
namespace {
struct MseTerm {
  __device__ float operator()(float v, float target) const { return (v - target) * (v - target); }
};

Plan mse_tuned(const Mse& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const Total total(p.n, gpu, workspace);
    return Plan([p, total](Args t) {
             total.enqueue(t, MseTerm{}, MeanOf{static_cast<double>(p.n)}, t[Mse::loss].as<float>(),
                           t[Mse::x].as<const T>(), t[Mse::t].as<const T>());
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(mse_tuned);

struct MseSlope {
  float scale;  // 2 / n, times that of the loss
  template <class T>
  __device__ T operator()(T x, T t) const {
    const float v = float(x), target = float(t);
    return T((v - target) * scale);
  }
};

Plan mse_backward_tuned(const MseBackward& p, GpuContext& gpu) {
  using P = MseBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      launch_map(stream, MseSlope{static_cast<float>(2 * p.scale) / static_cast<float>(p.n)}, p.n, t[P::dx].as<T>(),
                 t[P::x].as<const T>(), t[P::t].as<const T>());
    };
  });
}
DUET_REGISTER(mse_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
