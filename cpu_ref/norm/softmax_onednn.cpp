// SPDX-License-Identifier: Apache-2.0
// The gradient of softmax by oneDNN. softmax itself is left out: a NaN becomes a finite number on its way through
// oneDNN's exp, and in bf16 exp(x - m) is rounded before the division.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/norm/softmax.h"

namespace duet {
namespace {
using dnnl::algorithm, dnnl::prop_kind, dnnl::softmax_backward, dnnl::softmax_forward;
using onednn::Desc;

Plan softmax_backward_onednn(const SoftmaxBackward& p, CpuContext&) {
  using S = SoftmaxBackward;
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = onednn::dense(p.dtype, {p.rows, p.cols});
    const softmax_forward::primitive_desc forward(onednn::engine(), prop_kind::forward_training,
                                                  algorithm::softmax_accurate, d, d, 1);
    const softmax_backward::primitive_desc chosen(onednn::engine(), algorithm::softmax_accurate, d, d, d, 1, forward,
                                                  onednn::attributes());
    run.add<softmax_backward>(chosen, {{DNNL_ARG_DST, run.tensor(S::y, d)},
                                       {DNNL_ARG_DIFF_DST, run.tensor(S::dy, d)},
                                       {DNNL_ARG_DIFF_SRC, run.tensor(S::dx, d)}});
  });
}
DUET_REGISTER(softmax_backward_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
