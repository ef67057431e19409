// SPDX-License-Identifier: Apache-2.0
// Calls the products of product_f32.cu (register tiling), product_half.cuh, product_int8.cu and product_float8.cu
// (tensor cores); their headers describe them.
#include "kernels/gemm/product.h"
#include "kernels/gemm/product_float8.h"
#include "kernels/gemm/product_int8.h"
#include "ops/gemm/gemm.h"

namespace duet::DUET_DEVICE {
namespace {
Plan plan_int8(const Gemm& p, GpuContext& gpu) {
  const Product product{.batch = p.batch, .m = p.m, .n = p.n, .k = p.k, .trans_a = p.trans_a, .trans_b = p.trans_b};
  WorkspaceLayout workspace;
  const auto transposed = workspace.add<int8_t>(product_int8_workspace_bytes(product));
  return Plan([product, transposed, &gpu](Args t) {
           enqueue_product_int8(product, t[Gemm::a].as<const int8_t>(), t[Gemm::b].as<const int8_t>(),
                                t[Gemm::c].as<int32_t>(), t.workspace(transposed), gpu.stream());
         })
      .with("mma.m16n8k32", std::move(workspace));
}

Plan plan_float8(const Gemm& p, GpuContext& gpu) {
  if (gpu.capability() < kFloat8Capability)
    return Unsupported{"f8e4m3 before sm_89, whose tensor cores do not multiply it"};
  const Product product{
      .batch = p.batch, .m = p.m, .n = p.n, .k = p.k, .trans_a = p.trans_a, .trans_b = p.trans_b, .alpha = p.alpha};
  WorkspaceLayout workspace;
  const auto transposed = workspace.add<int8_t>(product_float8_workspace_bytes(product));
  return Plan([product, transposed, &gpu](Args t) {
           enqueue_product_float8(product, float8_bits(t[Gemm::a]), float8_bits(t[Gemm::b]),
                                  t[Gemm::c].as<__nv_bfloat16>(), t.workspace(transposed), gpu.stream());
         })
      .with("mma.m16n8k32, at most 64 products in a chain", std::move(workspace));
}

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

Plan gemm_tuned(const Gemm& p, GpuContext& gpu) {
  return p.is_int8() ? plan_int8(p, gpu) : p.is_float8() ? plan_float8(p, gpu) : plan(p, gpu);
}
Plan gemm_acc_tuned(const GemmAcc& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(gemm_tuned);
DUET_REGISTER(gemm_acc_tuned);
}  // namespace
}  // namespace duet::DUET_DEVICE
