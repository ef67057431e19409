// SPDX-License-Identifier: Apache-2.0
// gelu_linear_backward_data by OpenBLAS: cblas_sgemm, then one pass for the slope and the column sums.
#include "core/registration.h"
#include "cpu_ref/gemm/linear_gelu.h"
#include "cpu_ref/gemm/openblas.h"
#include "ops/gemm/gelu_linear.h"

namespace duet {
namespace {
using P = GeluLinearBackwardData;

Plan gelu_linear_backward_data_openblas(const P& p, CpuContext& cpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (!openblas::fits({p.n, p.in, p.out})) return Unsupported{"a dimension over 2^31 - 1"};
  openblas::use_threads(cpu.threads());
  WorkspaceLayout workspace;
  const auto sums = workspace.add<float>(slope_sums(p.n) * p.in);
  return Plan([p, sums, &cpu](Args t) {
           auto* dh = t[P::dh].as<float>();
           openblas::use_threads(cpu.threads());
           openblas::multiply(false, false, p.n, p.in, p.out, t[P::dy].as<const float>(), t[P::w].as<const float>(),
                              dh);
           gelu_gradient_and_sums(cpu, p.dtype, dh, t[P::h].data, p.n, p.in, dh, t[P::dbias].data, t.workspace(sums));
         })
      .with("sgemm, then gelu's slope and sums", std::move(workspace));
}
DUET_REGISTER(gelu_linear_backward_data_openblas);  // cpu.openblas

}  // namespace
}  // namespace duet
