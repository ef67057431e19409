// SPDX-License-Identifier: Apache-2.0
// gelu_linear_backward_data by the matrix engine (engine.h): the product in f32, which lies in dh itself where that is
// f32; then one pass for the slope and the column sums (linear_gelu.h).
#include "core/registration.h"
#include "cpu_ref/chunks.h"
#include "cpu_ref/gemm/engine.h"
#include "cpu_ref/gemm/linear_gelu.h"
#include "ops/gemm/gelu_linear.h"

namespace duet {
namespace {
using P = GeluLinearBackwardData;
using engine::Engine, engine::Matrix;

Plan gelu_linear_backward_data_tuned(const P& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (!is_simd_dtype(p.dtype)) return Unsupported{kNotSimdDtype};
  WorkspaceLayout workspace;
  // dy w: (n, out) (out, in).
  Engine engine(cpu, workspace,
                {.m = p.n, .n = p.in, .k = p.out, .a = {.dtype = p.dtype, .along_k = true}, .b = {.dtype = p.dtype}});
  const auto products = workspace.add<float>(p.dtype == DType::f32 ? 0 : p.n * p.in);
  const auto sums = workspace.add<float>(slope_sums(p.n) * p.in);
  const std::string algorithm = engine.describe() + ", then gelu's slope and sums";
  auto run = [p, engine = std::move(engine), products, sums, &cpu](Args t) {
    const Matrix dy(t[P::dy].data, p.dtype, p.out, 1), w(t[P::w].data, p.dtype, 1, p.in);
    float* product = p.dtype == DType::f32 ? t[P::dh].as<float>() : t.workspace(products);
    engine.each(t, [&](int64_t, float* memory) {
      engine.multiply(dy, w, {.c = product, .dtype = DType::f32, .step = p.in}, memory);
    });
    gelu_gradient_and_sums(cpu, p.dtype, product, t[P::h].data, p.n, p.in, t[P::dh].data, t[P::dbias].data,
                           t.workspace(sums));
  };
  return Plan(std::move(run)).with(algorithm, std::move(workspace));
}
DUET_REGISTER(gelu_linear_backward_data_tuned);  // cpu.tuned

}  // namespace
}  // namespace duet
