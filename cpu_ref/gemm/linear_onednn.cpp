// SPDX-License-Identifier: Apache-2.0
// linear and its backward by oneDNN. Forward: a matmul with bias and relu, of the weights as they are or packed before;
// with gelu a second pass, because it has a further output. Backward: the gradient of the activation, then an inner
// product's gradients.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/gemm/linear.h"

namespace duet {
namespace {
using dnnl::algorithm, dnnl::prop_kind;
using onednn::Desc, onednn::Packing, onednn::Value;

// y = act(x w' + bias)
Plan forward(const Linear& p, Packing packing) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  return onednn::planned(packing, [&](onednn::Program& run) {
    const auto x = run.tensor(Linear::x, onednn::dense(p.dtype, {p.n, p.in}));
    const auto w = run.tensor(Linear::w, {{p.in, p.out}, onednn::type_of(p.dtype), {1, p.in}});
    const auto bias = run.tensor(Linear::bias, onednn::dense(p.dtype, {1, p.out}));
    const auto y = run.tensor(Linear::y, onednn::dense(p.dtype, {p.n, p.out}));
    const bool gelu = p.act == Act::gelu;
    dnnl::primitive_attr attributes = onednn::attributes();
    if (p.act == Act::relu) {
      dnnl::post_ops after;
      after.append_eltwise(algorithm::eltwise_relu, 0, 0);
      attributes.set_post_ops(after);
    }
    // gelu is applied to the sum in f32, and pre is the sum rounded to dtype.
    const Desc wide = onednn::dense(DType::f32, {p.n, p.out});
    Value sum = y;
    if (gelu) sum = p.dtype == DType::f32 ? run.tensor(Linear::pre, wide) : run.temporary(wide);
    const Desc weights = packing == Packing::before ? onednn::any(p.dtype, {p.in, p.out}) : w.desc;
    const dnnl::matmul::primitive_desc product(onednn::engine(), x.desc, weights, bias.desc, sum.desc, attributes);
    const Value packed = run.packed(Linear::w, w, product.weights_desc(), packing);
    run.add<dnnl::matmul>(product,
                          {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, sum}});
    if (!gelu) return;
    if (p.dtype != DType::f32) run.unstage(sum, run.tensor(Linear::pre, y.desc), "pre");
    const dnnl::eltwise_forward::primitive_desc act(onednn::engine(), prop_kind::forward_inference,
                                                    algorithm::eltwise_gelu_tanh, wide, wide, 0, 0,
                                                    onednn::attributes());
    const Value activated = p.dtype == DType::f32 ? y : sum;
    run.add<dnnl::eltwise_forward>(act, {{DNNL_ARG_SRC, sum}, {DNNL_ARG_DST, activated}});
    run.unstage(activated, y, "y");
  });
}
Plan linear_onednn(const Linear& p, CpuContext&) { return forward(p, Packing::in_each_run); }
Plan linear_onednn_packed(const Linear& p, CpuContext&) { return forward(p, Packing::before); }
DUET_REGISTER(linear_onednn);         // cpu.onednn
DUET_REGISTER(linear_onednn_packed);  // cpu.onednn_packed

Plan linear_backward_onednn(const LinearBackward& p, CpuContext&) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  // It multiplies dy by 0 where y is 0: an infinite gradient becomes NaN there, and 0 by the contract.
  if (p.act == Act::relu) return Unsupported{"oneDNN's relu backward multiplies where the contract selects"};
  using L = LinearBackward;
  return onednn::planned([&](onednn::Program& run) {
    const Desc rows = onednn::dense(p.dtype, {p.n, p.out});
    const auto x = run.tensor(L::x, onednn::dense(p.dtype, {p.n, p.in}));
    const auto w = run.tensor(L::w, onednn::dense(p.dtype, {p.out, p.in}));
    const auto dx = run.tensor(L::dx, onednn::dense(p.dtype, {p.n, p.in}));
    const auto dw = run.tensor(L::dw, onednn::dense(p.dtype, {p.out, p.in}));
    const auto dbias = run.tensor(L::dbias, onednn::dense(p.dtype, {p.out}));
    Value g = run.tensor(L::dy, rows);
    if (p.act == Act::gelu) {
      const auto act = algorithm::eltwise_gelu_tanh;
      const dnnl::eltwise_forward::primitive_desc forward(onednn::engine(), prop_kind::forward_training, act, rows,
                                                          rows, 0, 0);
      const dnnl::eltwise_backward::primitive_desc backward(onednn::engine(), act, rows, rows, rows, 0, 0, forward,
                                                            onednn::attributes());
      const Value dy = g;
      g = run.temporary(rows);
      run.add<dnnl::eltwise_backward>(
          backward, {{DNNL_ARG_SRC, run.tensor(L::y, rows)}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, g}});
    }
    const dnnl::inner_product_forward::primitive_desc forward(onednn::engine(), prop_kind::forward_training, x.desc,
                                                              w.desc, dbias.desc, rows);
    const dnnl::inner_product_backward_data::primitive_desc to_data(onednn::engine(), dx.desc, w.desc, rows, forward,
                                                                    onednn::attributes());
    run.add<dnnl::inner_product_backward_data>(
        to_data, {{DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}});
    const dnnl::inner_product_backward_weights::primitive_desc to_weights(onednn::engine(), x.desc, dw.desc, dbias.desc,
                                                                          rows, forward, onednn::attributes());
    run.add<dnnl::inner_product_backward_weights>(
        to_weights,
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_DIFF_WEIGHTS, dw}, {DNNL_ARG_DIFF_BIAS, dbias}});
  });
}
DUET_REGISTER(linear_backward_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
