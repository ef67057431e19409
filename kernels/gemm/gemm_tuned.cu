// SPDX-License-Identifier: Apache-2.0
// Calls the products of product_f32.cu (register tiling) and product_half.cuh (tensor cores); product.h describes them.
#include "kernels/gemm/product.h"
#include "ops/gemm/gemm.h"

namespace duet::DUET_DEVICE {
namespace {
template <bool kAccumulate>
Plan plan(const GemmOf<kAccumulate>& p, GpuContext& gpu) {
  if (p.math == Math::tf32) return Unsupported{"math tf32"};
  return for_float(p.dtype, [&]<class T>() -> Plan {
    const Product product{.batch = p.batch,
                          .m = p.m,
                          .n = p.n,
                          .k = p.k,
                          .trans_a = p.trans_a,
                          .trans_b = p.trans_b,
                          .accumulate = kAccumulate,
                          .alpha = p.alpha};
    return [product, &gpu](Args t) {
      enqueue_product<T>(product, t[Gemm::a].as<const T>(), t[Gemm::b].as<const T>(), nullptr, t[Gemm::c].as<T>(), gpu);
    };
  });
}

Plan gemm_tuned(const Gemm& p, GpuContext& gpu) { return plan(p, gpu); }
Plan gemm_acc_tuned(const GemmAcc& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(gemm_tuned);
DUET_REGISTER(gemm_acc_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
