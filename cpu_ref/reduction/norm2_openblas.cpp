// SPDX-License-Identifier: Apache-2.0
// norm2 by OpenBLAS: cblas_snrm2, with as many threads as the context has.
#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/gemm/openblas.h"
#include "ops/reduction/norm2.h"

namespace duet {
namespace {

Plan norm2_openblas(const Norm2& p, CpuContext& cpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  if (!openblas::fits({p.n})) return Unsupported{"a dimension over 2^31 - 1"};
  return [p, &cpu](Args t) {
    openblas::use_threads(cpu.threads());
    *t[Norm2::y].as<float>() = cblas_snrm2(static_cast<blasint>(p.n), t[Norm2::x].as<const float>(), 1);
  };
}
DUET_REGISTER(norm2_openblas);  // cpu.openblas

}  // namespace
}  // namespace duet
