// SPDX-License-Identifier: Apache-2.0
// linear_int8 by oneDNN: a matmul of i8, of the weights as they are or packed before. It scales by scale_x, a factor of
// the matmul; scale_w and bias follow as binary operations on the sum in f32, since oneDNN's own factor of the weights
// would be multiplied with scale_x first, and that product may be subnormal or overflow where the contract's does not.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/gemm/linear_int8.h"

namespace duet {
namespace {
using dnnl::algorithm;
using onednn::Desc, onednn::Packing, onednn::Value;

Plan planned(const LinearInt8& p, Packing packing) {
  using L = LinearInt8;
  if (!onednn::has_vnni())
    return Unsupported{"on this CPU, without VNNI, oneDNN adds two products of i8 in 16 bits, where they saturate"};
  return onednn::planned(packing, [&](onednn::Program& run) {
    const auto x = run.tensor(L::x, onednn::dense(DType::i8, {p.n, p.in}));
    const auto w = run.tensor(L::w, {{p.in, p.out}, onednn::type_of(DType::i8), {1, p.in}});
    const auto scale_x = run.tensor(L::scale_x, onednn::dense(DType::f32, {1}));
    const auto scale_w = run.tensor(L::scale_w, onednn::dense(DType::f32, {1, p.out}));
    const auto bias = run.tensor(L::bias, onednn::dense(p.dtype, {1, p.out}));
    const auto y = run.tensor(L::y, onednn::dense(p.dtype, {p.n, p.out}));
    dnnl::primitive_attr attributes = onednn::attributes();
    attributes.set_scales_mask(DNNL_ARG_SRC, 0);
    dnnl::post_ops after;
    after.append_binary(algorithm::binary_mul, scale_w.desc);
    after.append_binary(algorithm::binary_add, bias.desc);
    attributes.set_post_ops(after);
    const Desc weights = packing == Packing::before ? onednn::any(DType::i8, {p.in, p.out}) : w.desc;
    const dnnl::matmul::primitive_desc product(onednn::engine(), x.desc, weights, y.desc, attributes);
    const Value packed = run.packed(L::w, w, product.weights_desc(), packing);
    run.add<dnnl::matmul>(product, {{DNNL_ARG_SRC, x},
                                    {DNNL_ARG_WEIGHTS, packed},
                                    {DNNL_ARG_DST, y},
                                    {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, scale_x},
                                    {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, scale_w},
                                    {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, bias}});
  });
}
Plan linear_int8_onednn(const LinearInt8& p, CpuContext&) { return planned(p, Packing::in_each_run); }
Plan linear_int8_onednn_packed(const LinearInt8& p, CpuContext&) { return planned(p, Packing::before); }
DUET_REGISTER(linear_int8_onednn);         // cpu.onednn
DUET_REGISTER(linear_int8_onednn_packed);  // cpu.onednn_packed

}  // namespace
}  // namespace duet
