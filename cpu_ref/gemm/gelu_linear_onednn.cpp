// SPDX-License-Identifier: Apache-2.0
// gelu_linear_backward_data by oneDNN's matmul. gelu's gradient is none of its post-ops, and its own primitive for that
// loses the tail of the slope (cpu_ref/README.md), so that the slope and the column sums are a pass of ours.
#include "core/registration.h"
#include "cpu_ref/gemm/linear_gelu.h"
#include "cpu_ref/onednn.h"
#include "ops/gemm/gelu_linear.h"

namespace duet {
namespace {
using P = GeluLinearBackwardData;

Plan gelu_linear_backward_data_onednn(const P& p, CpuContext& cpu) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.dtype == DType::f64) return Unsupported{"dtype f64"};
  return onednn::planned([&](onednn::Program& run) {
    const bool f32 = p.dtype == DType::f32;
    const auto dy = run.tensor(P::dy, onednn::dense(p.dtype, {p.n, p.out}));
    const auto w = run.tensor(P::w, onednn::dense(p.dtype, {p.out, p.in}));
    const onednn::Desc wide = onednn::dense(DType::f32, {p.n, p.in});
    const onednn::Value product = f32 ? run.tensor(P::dh, wide) : run.temporary(wide);
    const dnnl::matmul::primitive_desc matmul(onednn::engine(), dy.desc, w.desc, wide, onednn::attributes());
    run.add<dnnl::matmul>(matmul, {{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, product}});
    const WorkspacePiece<void> apart = f32 ? WorkspacePiece<void>{} : run.place_of(product);
    const auto sums = run.workspace<float>(slope_sums(p.n) * p.in);
    run.add([p, f32, apart, sums, &cpu](const Args& t) {
      const void* from = f32 ? t[P::dh].data : t.workspace(apart);
      gelu_gradient_and_sums(cpu, p.dtype, static_cast<const float*>(from), t[P::h].data, p.n, p.in, t[P::dh].data,
                             t[P::dbias].data, t.workspace(sums));
    });
  });
}
DUET_REGISTER(gelu_linear_backward_data_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
