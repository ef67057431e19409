// SPDX-License-Identifier: Apache-2.0
// gemv by OpenBLAS: cblas_sgemv, with as many threads as the context has.
#include <algorithm>

#include "core/cpu_context.h"
#include "core/registration.h"
#include "cpu_ref/gemm/openblas.h"
#include "ops/gemm/gemv.h"

namespace duet {
namespace {

Plan gemv_openblas(const Gemv& p, CpuContext& cpu) {
  if (p.dtype != DType::f32) return Unsupported{"dtype other than f32"};
  if (!openblas::fits({p.m, p.n})) return Unsupported{"a dimension over 2^31 - 1"};
  openblas::use_threads(cpu.threads());
  return [p, &cpu](Args t) {
    auto* y = t[Gemv::y].as<float>();
    openblas::use_threads(cpu.threads());
    if (p.n == 0) {  // OpenBLAS would leave y as it is
      std::fill_n(y, p.m, 0.0f);
    } else if (p.m > 0) {
      const auto rows = static_cast<blasint>(p.trans ? p.n : p.m), cols = static_cast<blasint>(p.trans ? p.m : p.n);
      cblas_sgemv(CblasRowMajor, p.trans ? CblasTrans : CblasNoTrans, rows, cols, 1, t[Gemv::a].as<const float>(), cols,
                  t[Gemv::x].as<const float>(), 1, 0, y, 1);
    }
  };
}
DUET_REGISTER(gemv_openblas);  // cpu.openblas

}  // namespace
}  // namespace duet
