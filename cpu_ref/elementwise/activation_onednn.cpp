// SPDX-License-Identifier: Apache-2.0
// relu, gelu, sigmoid, tanh and their gradients by oneDNN's eltwise. Left out are the gradient of relu, because
// oneDNN multiplies dy by 0 where x <= 0, which makes NaN of infinite gradients that must stop there; and swiglu, whose
// product goes through memory, because oneDNN has only reference code for swish with a product behind it.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/elementwise/gelu.h"
#include "ops/elementwise/relu.h"
#include "ops/elementwise/sigmoid.h"
#include "ops/elementwise/tanh.h"

namespace duet {
namespace {
using dnnl::algorithm, dnnl::eltwise_backward, dnnl::eltwise_forward, dnnl::prop_kind;
using onednn::Desc;

Plan forward(DType dtype, int64_t n, algorithm kind, Slot x, Slot y) {
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = onednn::dense(dtype, {n});
    const auto from = run.tensor(x, d), to = run.tensor(y, d);
    const eltwise_forward::primitive_desc chosen(onednn::engine(), prop_kind::forward_inference, kind, d, d, 0, 0,
                                                 onednn::attributes());
    run.add<eltwise_forward>(chosen, {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}});
  });
}

// `known`: what the gradient is computed from, which is y where `kind` says _use_dst_for_bwd.
Plan backward(DType dtype, int64_t n, algorithm forward_kind, algorithm kind, Slot known, Slot dy, Slot dx) {
  return onednn::planned([&](onednn::Program& run) {
    const Desc d = onednn::dense(dtype, {n});
    const eltwise_forward::primitive_desc hint(onednn::engine(), prop_kind::forward_training, forward_kind, d, d, 0, 0);
    const eltwise_backward::primitive_desc chosen(onednn::engine(), kind, d, d, d, 0, 0, hint, onednn::attributes());
    run.add<eltwise_backward>(chosen, {{kind == forward_kind ? DNNL_ARG_SRC : DNNL_ARG_DST, run.tensor(known, d)},
                                       {DNNL_ARG_DIFF_DST, run.tensor(dy, d)},
                                       {DNNL_ARG_DIFF_SRC, run.tensor(dx, d)}});
  });
}

algorithm kind_of(GeluForm form) {
  return form == GeluForm::tanh ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf;
}

Plan relu_onednn(const Relu& p, CpuContext&) {
  return forward(p.dtype, p.n, algorithm::eltwise_relu, Relu::x, Relu::y);
}
Plan gelu_onednn(const Gelu& p, CpuContext&) {
  if (p.form == GeluForm::erf) return Unsupported{"oneDNN's erf form overflows from half of the largest number on"};
  return forward(p.dtype, p.n, kind_of(p.form), Gelu::x, Gelu::y);
}
Plan gelu_backward_onednn(const GeluBackward& p, CpuContext&) {
  using G = GeluBackward;
  if (p.form == GeluForm::tanh)
    return Unsupported{"oneDNN's 1 - tanh^2 cancels: at |x| = 4 its slope is wrong by 14 u, the contract allows 10 u"};
  return backward(p.dtype, p.n, kind_of(p.form), kind_of(p.form), G::x, G::dy, G::dx);
}
Plan sigmoid_onednn(const Sigmoid& p, CpuContext&) {
  return forward(p.dtype, p.n, algorithm::eltwise_logistic, Sigmoid::x, Sigmoid::y);
}
Plan sigmoid_backward_onednn(const SigmoidBackward& p, CpuContext&) {
  using S = SigmoidBackward;
  return backward(p.dtype, p.n, algorithm::eltwise_logistic, algorithm::eltwise_logistic_use_dst_for_bwd, S::y, S::dy,
                  S::dx);
}
Plan tanh_onednn(const Tanh& p, CpuContext&) {
  return forward(p.dtype, p.n, algorithm::eltwise_tanh, Tanh::x, Tanh::y);
}
Plan tanh_backward_onednn(const TanhBackward& p, CpuContext&) {
  using T = TanhBackward;
  return backward(p.dtype, p.n, algorithm::eltwise_tanh, algorithm::eltwise_tanh_use_dst_for_bwd, T::y, T::dy, T::dx);
}

DUET_REGISTER(relu_onednn);              // cpu.onednn
DUET_REGISTER(gelu_onednn);              // cpu.onednn
DUET_REGISTER(gelu_backward_onednn);     // cpu.onednn
DUET_REGISTER(sigmoid_onednn);           // cpu.onednn
DUET_REGISTER(sigmoid_backward_onednn);  // cpu.onednn
DUET_REGISTER(tanh_onednn);              // cpu.onednn
DUET_REGISTER(tanh_backward_onednn);     // cpu.onednn

}  // namespace
}  // namespace duet
