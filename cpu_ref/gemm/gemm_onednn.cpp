// SPDX-License-Identifier: Apache-2.0
// gemm, gemm_acc and gemv by oneDNN's matmul, on the tensors as they are: it packs b itself where that pays.
#include "core/registration.h"
#include "cpu_ref/onednn.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/gemv.h"

namespace duet {
namespace {
using onednn::Desc, onednn::Dims;

// (batch, rows, columns), of a matrix that may be stored transposed. A single product has two dimensions, for which
// oneDNN has more code.
Desc matrix(DType dtype, int64_t batch, int64_t rows, int64_t cols, bool transposed) {
  Dims dims{batch, rows, cols};
  Dims strides{rows * cols, transposed ? 1 : cols, transposed ? rows : 1};
  if (batch == 1) {
    dims.erase(dims.begin());
    strides.erase(strides.begin());
  }
  return {dims, onednn::type_of(dtype), strides};
}

template <bool kAccumulate>
Plan planned(const GemmOf<kAccumulate>& p) {
  if (p.math == Math::tf32) return Unsupported{"no TF32 on a CPU"};
  if (p.is_int8() && !onednn::has_vnni())
    return Unsupported{"i8 on this CPU: without VNNI oneDNN adds two products in 16 bits, where they saturate"};
  return onednn::planned([&](onednn::Program& run) {
    const auto a = run.tensor(Gemm::a, matrix(p.dtype, p.batch, p.m, p.k, p.trans_a));
    const auto b = run.tensor(Gemm::b, matrix(p.dtype, p.batch, p.k, p.n, p.trans_b));
    const auto c = run.tensor(Gemm::c, matrix(p.result(), p.batch, p.m, p.n, false));
    dnnl::primitive_attr attributes = onednn::attributes();
    dnnl::post_ops after;
    if (p.alpha != 1) after.append_eltwise(dnnl::algorithm::eltwise_linear, p.alpha, 0);
    if (kAccumulate) after.append_sum(1);
    attributes.set_post_ops(after);
    const dnnl::matmul::primitive_desc product(onednn::engine(), a.desc, b.desc, c.desc, attributes);
    run.add<dnnl::matmul>(product, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  });
}
Plan gemm_onednn(const Gemm& p, CpuContext&) { return planned(p); }
Plan gemm_acc_onednn(const GemmAcc& p, CpuContext&) { return planned(p); }
DUET_REGISTER(gemm_onednn);      // cpu.onednn
DUET_REGISTER(gemm_acc_onednn);  // cpu.onednn

Plan gemv_onednn(const Gemv& p, CpuContext&) {
  return onednn::planned([&](onednn::Program& run) {
    const auto a = run.tensor(Gemv::a, matrix(p.dtype, 1, p.m, p.n, p.trans));
    const auto x = run.tensor(Gemv::x, onednn::dense(p.dtype, {p.n, 1}));
    const auto y = run.tensor(Gemv::y, onednn::dense(p.dtype, {p.m, 1}));
    const dnnl::matmul::primitive_desc product(onednn::engine(), a.desc, x.desc, y.desc, onednn::attributes());
    run.add<dnnl::matmul>(product, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, x}, {DNNL_ARG_DST, y}});
  });
}
DUET_REGISTER(gemv_onednn);  // cpu.onednn

}  // namespace
}  // namespace duet
