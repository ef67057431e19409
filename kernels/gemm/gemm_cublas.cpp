// SPDX-License-Identifier: Apache-2.0
// cuBLAS, whose matrices are column-major: it computes c' = op(b)' op(a)', which is c in the same memory. Sums are in
// f32; TF32 is used only where the case asks for it. The library's own heuristic chooses the kernel.
#include "core/cuda/cublas.h"
#include "ops/gemm/gemm.h"

namespace duet::cuda {
namespace {
template <bool kAccumulate>
Plan plan(const GemmOf<kAccumulate>& p, GpuContext& gpu) {
  if (!cublas_takes(p.dtype)) return Unsupported{std::string("dtype ") + name_of(p.dtype)};
  if (p.batch * p.m * p.n * p.k == 0) return Unsupported{"cuBLAS takes no empty matrix"};
  if (std::max({p.batch, p.m, p.n, p.k}) > INT32_MAX) return Unsupported{"a dimension over 2^31 - 1"};
  const auto type = cublas_dtype(p.dtype);
  return Plan([p, type, compute = cublas_compute(p.math), handle = gpu.cublas()](Args t) {
           const float beta = kAccumulate ? 1 : 0;
           const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
           DUET_CUBLAS(cublasGemmStridedBatchedEx(
               handle, p.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, p.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &p.alpha,
               t[Gemm::b].data, type, p.trans_b ? k : n, p.k * p.n, t[Gemm::a].data, type, p.trans_a ? m : k, p.m * p.k,
               &beta, t[Gemm::c].data, type, n, p.m * p.n, static_cast<int>(p.batch), compute, CUBLAS_GEMM_DEFAULT));
         })
      .with("heuristic");
}

Plan gemm_cublas(const Gemm& p, GpuContext& gpu) { return plan(p, gpu); }
Plan gemm_acc_cublas(const GemmAcc& p, GpuContext& gpu) { return plan(p, gpu); }
DUET_REGISTER(gemm_cublas);
DUET_REGISTER(gemm_acc_cublas);
}  // namespace
}  // namespace duet::cuda
