// SPDX-License-Identifier: Apache-2.0
// linear and its backward by OpenBLAS. Forward: cblas_sgemm, then one pass for bias and activation. Backward: one pass
// that masks dy and sums its columns (with gelu, another one before it), then two sgemm. Threads share the rows or
// columns of the passes; OpenBLAS divides its products itself.
#include <algorithm>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/gemm/linear_gelu.h"
#include "cpu_ref/gemm/openblas.h"
#include "cpu_ref/chunks.h"
#include "ops/gemm/linear.h"

namespace duet {
namespace {

using openblas::multiply;

Plan linear_openblas(const Linear& p, CpuContext& cpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (!openblas::fits({p.n, p.in, p.out})) return Unsupported{"a dimension over 2^31 - 1"};
  openblas::use_threads(cpu.threads());
  return Plan([p, &cpu](Args t) {
           const auto* bias = t[Linear::bias].as<const float>();
           auto* y = t[Linear::y].as<float>();
           const bool gelu = p.act == Act::gelu;
           float* to = gelu ? t[Linear::pre].as<float>() : y;
           openblas::use_threads(cpu.threads());
           multiply(false, true, p.n, p.out, p.in, t[Linear::x].as<const float>(), t[Linear::w].as<const float>(), to);
           if (gelu)
             return cpu.parallel_for(p.n, rows_per_chunk(p.out), [&](int64_t first, int64_t last) {
               finish_gelu(p.dtype, to, bias, p.out, first, last, to, y);
             });
           const float floor = p.act == Act::relu ? 0 : -INFINITY;
           cpu.parallel_for(p.n, 1 + 65536 / (p.out + 1), [&](int64_t first, int64_t last) {
             for (int64_t i = first; i < last; ++i)
               for (int64_t o = 0; o < p.out; ++o) {
                 const float v = y[i * p.out + o] + bias[o];
                 y[i * p.out + o] = v < floor ? floor : v;
               }
           });
         })
      .with("sgemm, then bias and activation");
}
DUET_REGISTER(linear_openblas);  // cpu.openblas

Plan linear_backward_openblas(const LinearBackward& p, CpuContext& cpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (!openblas::fits({p.n, p.in, p.out})) return Unsupported{"a dimension over 2^31 - 1"};
  openblas::use_threads(cpu.threads());
  const bool relu = p.act == Act::relu, gelu = p.act == Act::gelu;
  WorkspaceLayout workspace;
  const auto masked = workspace.add<float>(relu || gelu ? p.n * p.out : 0);
  return Plan([p, relu, gelu, masked, &cpu](Args t) {
           using L = LinearBackward;
           const auto *y = t[L::y].as<const float>(), *dy = t[L::dy].as<const float>();  // y: pre with gelu
           const auto *x = t[L::x].as<const float>(), *w = t[L::w].as<const float>();
           auto* dbias = t[L::dbias].as<float>();
           float* g = t.workspace(masked);
           openblas::use_threads(cpu.threads());
           if (gelu) {
             parallel_chunks(cpu, p.n * p.out,
                             [&](int64_t first, int64_t last) { gelu_gradient(p.dtype, y, dy, first, last, g); });
             dy = g;
           }
           cpu.parallel_for(p.out, 64 + 65536 / (p.n + 1), [&](int64_t first, int64_t last) {
             std::fill(dbias + first, dbias + last, 0.0f);
             for (int64_t i = 0; i < p.n; ++i)
               for (int64_t o = first; o < last; ++o) {
                 float v = dy[i * p.out + o];
                 if (relu) {
                   v = y[i * p.out + o] > 0 ? v : 0;
                   g[i * p.out + o] = v;
                 }
                 dbias[o] += v;
               }
           });
           const float* gradient = relu ? g : dy;
           multiply(false, false, p.n, p.in, p.out, gradient, w, t[L::dx].as<float>());
           multiply(true, false, p.out, p.in, p.n, gradient, x, t[L::dw].as<float>());
         })
      .with("mask and sum, then two sgemm", std::move(workspace));
}
DUET_REGISTER(linear_backward_openblas);  // cpu.openblas

}  // namespace
}  // namespace duet
