// SPDX-License-Identifier: Apache-2.0
// cast by oneDNN's reorder, axpy by its sum.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/elementwise/axpy.h"
#include "ops/elementwise/cast.h"

namespace duet {
namespace {

Plan cast_onednn(const Cast& p, CpuContext&) {
  if (p.dtype == p.to) return Unsupported{"no conversion"};
  if (p.to == DType::f16) return Unsupported{"oneDNN loses the sign of what rounds to 0 in f16"};
  return onednn::planned([&](onednn::Program& run) {
    const auto x = run.tensor(Cast::x, onednn::dense(p.dtype, {p.n}));
    const auto y = run.tensor(Cast::y, onednn::dense(p.to, {p.n}));
    const dnnl::reorder::primitive_desc chosen(onednn::engine(), x.desc, onednn::engine(), y.desc,
                                               onednn::attributes());
    run.add<dnnl::reorder>(chosen, {{DNNL_ARG_FROM, x}, {DNNL_ARG_TO, y}});
  });
}
DUET_REGISTER(cast_onednn);  // cpu.onednn

// y is the first term and the result.
Plan axpy_onednn(const Axpy& p, CpuContext&) {
  const auto alpha = static_cast<float>(p.alpha);
  if (alpha == 0) return Unsupported{"oneDNN multiplies x by 0 where the contract leaves y"};
  return onednn::planned([&](onednn::Program& run) {
    const auto x = run.tensor(Axpy::x, onednn::dense(p.dtype, {p.n}));
    const auto y = run.tensor(Axpy::y, onednn::dense(p.dtype, {p.n}));
    const dnnl::sum::primitive_desc chosen(onednn::engine(), y.desc, {1, alpha}, {y.desc, x.desc},
                                           onednn::attributes());
    run.add<dnnl::sum>(chosen, {{DNNL_ARG_MULTIPLE_SRC, y}, {DNNL_ARG_MULTIPLE_SRC + 1, x}, {DNNL_ARG_DST, y}});
  });
}
DUET_REGISTER(axpy_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
