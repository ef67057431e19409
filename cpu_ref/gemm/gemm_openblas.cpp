// SPDX-License-Identifier: Apache-2.0
// gemm and gemm_acc by OpenBLAS: cblas_sgemm, or cblas_sgemv where one side is a vector, because sgemm does not look
// for that case. A batch of at least as many products as threads is shared among the threads, one product each;
// otherwise OpenBLAS uses all threads for each product. Up to m n k = 1e6 OpenBLAS neither packs nor uses more than one
// thread.
#include <cstring>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/gemm/openblas.h"
#include "ops/gemm/gemm.h"

namespace duet {
namespace {

template <bool kAccumulate>
void multiply(const GemmOf<kAccumulate>& p, const float* a, const float* b, float* c) {
  using openblas::step;
  const auto m = static_cast<blasint>(p.m), n = static_cast<blasint>(p.n), k = static_cast<blasint>(p.k);
  const auto trans_a = p.trans_a ? CblasTrans : CblasNoTrans, trans_b = p.trans_b ? CblasTrans : CblasNoTrans;
  if (p.m == 0 || p.n == 0) return;
  constexpr float beta = kAccumulate ? 1 : 0;
  if (p.k == 0) {
    if (!kAccumulate) std::memset(c, 0, static_cast<size_t>(p.m * p.n) * sizeof(float));
  } else if (n == 1) {  // c = alpha op(a) b
    cblas_sgemv(CblasRowMajor, trans_a, p.trans_a ? k : m, p.trans_a ? m : k, p.alpha, a, p.trans_a ? m : k, b, 1, beta,
                c, 1);
  } else if (m == 1) {  // c' = alpha op(b)' a'
    cblas_sgemv(CblasRowMajor, p.trans_b ? CblasNoTrans : CblasTrans, p.trans_b ? n : k, p.trans_b ? k : n, p.alpha, b,
                p.trans_b ? k : n, a, 1, beta, c, 1);
  } else {
    cblas_sgemm(CblasRowMajor, trans_a, trans_b, m, n, k, p.alpha, a, step(p.trans_a ? m : k), b,
                step(p.trans_b ? k : n), beta, c, step(n));
  }
}

template <bool kAccumulate>
Plan plan(const GemmOf<kAccumulate>& p, CpuContext& cpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (!openblas::fits({p.m, p.n, p.k})) return Unsupported{"a dimension over 2^31 - 1"};
  const bool batch_in_parallel = p.batch >= cpu.threads() && cpu.threads() > 1;
  const int threads = batch_in_parallel ? 1 : cpu.threads();
  openblas::use_threads(threads);
  return Plan([p, batch_in_parallel, threads, &cpu](Args t) {
           const auto* a = t[Gemm::a].as<const float>();
           const auto* b = t[Gemm::b].as<const float>();
           auto* c = t[Gemm::c].as<float>();
           openblas::use_threads(threads);
           const auto products = [&](int64_t first, int64_t last) {
             for (int64_t i = first; i < last; ++i)
               multiply(p, a + i * p.m * p.k, b + i * p.k * p.n, c + i * p.m * p.n);
           };
           if (batch_in_parallel)
             cpu.parallel_for(p.batch, 1, products);
           else
             products(0, p.batch);
         })
      .with(p.n == 1 || p.m == 1 ? "sgemv" : "sgemm");
}

Plan gemm_openblas(const Gemm& p, CpuContext& cpu) { return plan(p, cpu); }
Plan gemm_acc_openblas(const GemmAcc& p, CpuContext& cpu) { return plan(p, cpu); }
DUET_REGISTER(gemm_openblas);  // cpu.openblas
DUET_REGISTER(gemm_acc_openblas);

}  // namespace
}  // namespace duet
