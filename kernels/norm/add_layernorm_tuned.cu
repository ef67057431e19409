// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row: the kernels of add_norm.cuh, with a mean.
#include "kernels/norm/add_norm.cuh"
#include "ops/norm/add_layernorm.h"

namespace duet::DUET_DEVICE {
namespace {
Plan add_layernorm_tuned(const AddLayerNorm& p, GpuContext& gpu) {
  using P = AddLayerNorm;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, of = RowShape{p.rows, p.cols, gpu.multiprocessors()}, stream = gpu.stream()](Args t) {
      const add_norm::Tensors<T> tensors{.x = t[P::x].as<const T>(),
                                         .residual = t[P::residual].as<const T>(),
                                         .gamma = t[P::gamma].as<const T>(),
                                         .beta = t[P::beta].as<const T>(),
                                         .s = t[P::s].as<T>(),
                                         .y = t[P::y].as<T>(),
                                         .mean = t[P::mean].as<float>(),
                                         .rstd = t[P::rstd].as<float>()};
      add_norm::enqueue<true>(tensors, aligned16(tensors.gamma, tensors.beta), of, p.eps, stream);
    };
  });
}
DUET_REGISTER(add_layernorm_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
