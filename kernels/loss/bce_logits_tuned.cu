// SPDX-License-Identifier: Apache-2.0
// Forward: total.cuh, in which blocks add packs of 16 bytes and one block adds their sums. Backward: map_kernel
// (vector.cuh), with one 16-byte access per thread and tensor.
#include "kernels/activation.cuh"
#include "kernels/reduction/total.cuh"
#include "ops/loss/bce_logits.h"

namespace duet::DUET_DEVICE {
namespace {
struct BceLogitsTerm {
  __device__ float operator()(float v, float target) const {
    return fmaxf(v, 0) - v * target + log1pf(expf(-fabsf(v)));
  }
};

Plan bce_logits_tuned(const BceLogits& p, GpuContext& gpu) {
  return for_float(p.dtype, [&]<class T>() -> Plan {
    WorkspaceLayout workspace;
    const Total total(p.n, gpu, workspace);
    return Plan([p, total](Args t) {
             total.enqueue(t, BceLogitsTerm{}, MeanOf{static_cast<double>(p.n)}, t[BceLogits::loss].as<float>(),
                           t[BceLogits::x].as<const T>(), t[BceLogits::t].as<const T>());
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(bce_logits_tuned);

struct BceLogitsSlope {
  float scale;              // 1 / n
  const float* loss_scale;  // null, or (1)
  template <class T>
  __device__ T operator()(T x, T t) const {
    const float v = float(x), target = float(t);
    return T((sigmoid(v) - target) * (loss_scale ? scale * *loss_scale : scale));
  }
};

Plan bce_logits_backward_tuned(const BceLogitsBackward& p, GpuContext& gpu) {
  using P = BceLogitsBackward;
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, stream = gpu.stream()](Args t) {
      const BceLogitsSlope slope{static_cast<float>(p.scale) / static_cast<float>(p.n),
                                 p.scaled ? t[P::loss_scale].as<const float>() : nullptr};
      launch_map(stream, slope, p.n, t[P::dx].as<T>(), t[P::x].as<const T>(), t[P::t].as<const T>());
    };
  });
}
DUET_REGISTER(bce_logits_backward_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
