// SPDX-License-Identifier: Apache-2.0
// axpy by OpenBLAS: cblas_saxpy, with as many threads as the context has.
#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/gemm/openblas.h"
#include "ops/elementwise/axpy.h"

namespace duet {
namespace {

Plan axpy_openblas(const Axpy& p, CpuContext& cpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  if (!openblas::fits({p.n})) return Unsupported{"a dimension over 2^31 - 1"};
  return [p, &cpu](Args t) {
    openblas::use_threads(cpu.threads());
    cblas_saxpy(static_cast<blasint>(p.n), static_cast<float>(p.alpha), t[Axpy::x].as<const float>(), 1,
                t[Axpy::y].as<float>(), 1);
  };
}
DUET_REGISTER(axpy_openblas);  // cpu.openblas

}  // namespace
}  // namespace duet
