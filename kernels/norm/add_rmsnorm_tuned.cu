// SPDX-License-Identifier: Apache-2.0
// One warp or one block per row: the kernels of add_norm.cuh, without a mean.
#include "kernels/norm/add_norm.cuh"
#include "ops/norm/add_rmsnorm.h"

namespace duet::DUET_DEVICE {
namespace {
Plan add_rmsnorm_tuned(const AddRmsNorm& p, GpuContext& gpu) {
  using P = AddRmsNorm;
  if (p.cols > kMaxCols) return Unsupported{"more than 2^19 columns"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    return [p, of = RowShape{p.rows, p.cols, gpu.multiprocessors()}, stream = gpu.stream()](Args t) {
      const add_norm::Tensors<T> tensors{.x = t[P::x].as<const T>(),
                                         .residual = t[P::residual].as<const T>(),
                                         .gamma = t[P::gamma].as<const T>(),
                                         .beta = nullptr,
                                         .s = t[P::s].as<T>(),
                                         .y = t[P::y].as<T>(),
                                         .mean = nullptr,
                                         .rstd = t[P::rstd].as<float>()};
      add_norm::enqueue<false>(tensors, aligned16(tensors.gamma), of, p.eps, stream);
    };
  });
}
DUET_REGISTER(add_rmsnorm_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
