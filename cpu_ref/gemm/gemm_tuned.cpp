// SPDX-License-Identifier: Apache-2.0
// gemm, gemm_acc and batches of them by the matrix engine (engine.h): either threads share the products of the batch,
// or all threads share each product. f8e4m3 is widened to bf16 first. i8: gemm_int8.cpp.
#include "core/registration.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/float8.h"
#include "cpu_ref/gemm/gemm_int8.h"
#include "ops/gemm/gemm.h"

namespace duet {
namespace {

template <bool kAccumulate>
Plan plan(const GemmOf<kAccumulate>& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  const bool widens = p.dtype == DType::f8e4m3;
  const DType dtype = widens ? DType::bf16 : p.dtype;  // of a and b as the engine reads them
  WorkspaceLayout workspace;
  const auto wide_a = workspace.add<bf16>(widens ? p.batch * p.m * p.k : 0);
  const auto wide_b = workspace.add<bf16>(widens ? p.batch * p.k * p.n : 0);
  engine::Engine engine(cpu, workspace,
                        {.m = p.m,
                         .n = p.n,
                         .k = p.k,
                         .result = p.result(),
                         .a = {.dtype = dtype, .along_k = !p.trans_a},
                         .b = {.dtype = dtype, .along_k = p.trans_b}},
                        p.batch);
  const std::string algorithm = (widens ? "widened to bf16; " : "") + engine.describe();
  auto run = [p, widens, dtype, wide_a, wide_b, &cpu, engine = std::move(engine)](Args t) {
    const auto* a = static_cast<const char*>(t[Gemm::a].data);
    const auto* b = static_cast<const char*>(t[Gemm::b].data);
    auto* c = static_cast<char*>(t[Gemm::c].data);
    if (widens) {
      bf16 *const of_a = t.workspace(wide_a), *const of_b = t.workspace(wide_b);
      widen_to_bf16(t[Gemm::a].as<const f8e4m3>(), p.batch * p.m * p.k, of_a, cpu);
      widen_to_bf16(t[Gemm::b].as<const f8e4m3>(), p.batch * p.k * p.n, of_b, cpu);
      a = reinterpret_cast<const char*>(of_a);
      b = reinterpret_cast<const char*>(of_b);
    }
    const int64_t size = size_of(dtype);
    engine.each(t, [&](int64_t i, float* memory) {
      const engine::Matrix A(a + i * p.m * p.k * size, dtype, p.trans_a ? 1 : p.k, p.trans_a ? p.m : 1);
      const engine::Matrix B(b + i * p.k * p.n * size, dtype, p.trans_b ? p.k : 1, p.trans_b ? 1 : p.n);
      engine.multiply(A, B,
                      {.c = c + i * p.m * p.n * size_of(p.result()),
                       .dtype = p.result(),
                       .step = p.n,
                       .alpha = p.alpha,
                       .accumulate = kAccumulate},
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
