// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: gelu's slope and the bias gradient are the epilogue of the product (cublaslt.h). It has only the tanh form
// of gelu, which is the contract's.
#include "kernels/gemm/cublaslt.h"
#include "ops/gemm/gelu_linear.h"

namespace duet::cuda {
namespace {
Plan gelu_linear_backward_data_cublaslt(const GeluLinearBackwardData& p, GpuContext& gpu) {
  using P = GeluLinearBackwardData;
  if (const std::string why = lt::unsupported_reason(p.dtype, p.n, p.in, p.out); !why.empty()) return Unsupported{why};
  // With tf32 as well: where the slope is small, the bound is that of f32.
  if (p.dtype == DType::f32) return lt::kGeluOfF32;
  if (p.in % 8 != 0)
    return Unsupported{
        "gelu of features that are no multiple of 8"};  // cuBLASLt: the leading dimension of h is a multiple of 8
  WorkspaceLayout workspace;
  // dh' (in, n) = w' dy'. The bias gradient has an element for each of its rows.
  lt::Matmul dh(gpu, workspace, p.dtype, p.math, {p.in, p.out}, {p.out, p.n}, CUBLASLT_EPILOGUE_DGELU_BGRAD, p.in);
  if (!dh.found()) return lt::kNone;
  return Plan([dh = std::move(dh)](Args t) mutable {
           dh.enqueue(t, lt::data(t[P::w]), lt::data(t[P::dy]), lt::data(t[P::dh]), lt::data(t[P::dbias]),
                      lt::data(t[P::h]));
         })
      .with("heuristic", std::move(workspace));
}
DUET_REGISTER(gelu_linear_backward_data_cublaslt);
}  // namespace
}  // namespace duet::cuda
