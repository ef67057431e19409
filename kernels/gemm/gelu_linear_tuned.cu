// SPDX-License-Identifier: Apache-2.0
// A product (product.h) that multiplies its tiles by gelu's slope and adds up their columns before they are stored; a
// second launch adds these sums for the bias gradient.
#include "kernels/gemm/product.h"
#include "kernels/reduction/columns.cuh"
#include "ops/gemm/gelu_linear.h"

namespace duet::DUET_DEVICE {
namespace {
Plan gelu_linear_backward_data_tuned(const GeluLinearBackwardData& p, GpuContext& gpu) {
  using P = GeluLinearBackwardData;
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const int64_t parts = ceil_div(p.n, kPartRows);
    WorkspaceLayout workspace;
    const auto piece = workspace.add<float>(parts * p.in);
    return Plan([p, parts, piece, &gpu](Args t) {
             float* const part = t.workspace(piece);
             enqueue_slope_product<T>({.m = p.n, .n = p.in, .k = p.out}, t[P::dy].as<const T>(), t[P::w].as<const T>(),
                                      t[P::h].as<const T>(), t[P::dh].as<T>(), part, gpu);
             launch_add_parts<1>(gpu.stream(), part, parts, p.in, StoreSum<T>{t[P::dbias].as<T>()});
           })
        .with(std::move(workspace));
  });
}
DUET_REGISTER(gelu_linear_backward_data_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
