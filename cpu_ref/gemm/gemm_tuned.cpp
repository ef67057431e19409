// SPDX-License-Identifier: Apache-2.0
// gemm, gemm_acc and batches of them by the matrix engine (engine.h): either threads share the products of the batch,
// or all threads share each product. i8: gemm_int8.cpp.
#include "core/registration.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/gemm_int8.h"
#include "ops/gemm/gemm.h"

namespace duet {
namespace {

template <bool kAccumulate>
Plan plan(const GemmOf<kAccumulate>& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  WorkspaceLayout workspace;
  engine::Engine engine(cpu, workspace,
                        {.m = p.m,
                         .n = p.n,
                         .k = p.k,
                         .result = p.dtype,
                         .a = {.dtype = p.dtype, .along_k = !p.trans_a},
                         .b = {.dtype = p.dtype, .along_k = p.trans_b}},
                        p.batch);
  const std::string algorithm = engine.describe();
  auto run = [p, engine = std::move(engine)](Args t) {
    const auto* a = static_cast<const char*>(t[Gemm::a].data);
    const auto* b = static_cast<const char*>(t[Gemm::b].data);
    auto* c = static_cast<char*>(t[Gemm::c].data);
    const int64_t size = size_of(p.dtype);
    engine.each(t, [&](int64_t i, float* memory) {
      const engine::Matrix A(a + i * p.m * p.k * size, p.dtype, p.trans_a ? 1 : p.k, p.trans_a ? p.m : 1);
      const engine::Matrix B(b + i * p.k * p.n * size, p.dtype, p.trans_b ? p.k : 1, p.trans_b ? 1 : p.n);
      engine.multiply(
          A, B,
          {.c = c + i * p.m * p.n * size, .dtype = p.dtype, .step = p.n, .alpha = p.alpha, .accumulate = kAccumulate},
          memory);
    });
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}

Plan gemm_tuned(const Gemm& p, CpuContext& cpu) { return p.is_int8() ? gemm_int8(p, cpu) : plan(p, cpu); }
Plan gemm_acc_tuned(const GemmAcc& p, CpuContext& cpu) { return plan(p, cpu); }
DUET_REGISTER(gemm_tuned);  // cpu.tuned
DUET_REGISTER(gemm_acc_tuned);

}  // namespace
}  // namespace duet
