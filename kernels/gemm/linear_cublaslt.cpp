// SPDX-License-Identifier: Apache-2.0
// cuBLASLt. Forward: bias and activation are the epilogue of the product. Backward: the bias gradient is the epilogue
// of dw (cublaslt.h).
#include "kernels/gemm/cublaslt.h"
#include "kernels/gemm/masked.h"
#include "ops/gemm/linear.h"

namespace duet::cuda {
namespace {
Plan linear_cublaslt(const Linear& p, GpuContext& gpu) {
  if (const std::string why = lt::unsupported_reason(p.dtype, p.n, p.in, p.out); !why.empty()) return Unsupported{why};
  const bool gelu = p.act == Act::gelu;
  if (gelu && p.dtype == DType::f32 && p.math == Math::ieee) return lt::kGeluOfF32;
  if (gelu && p.out % 8 != 0) return Unsupported{"gelu with outputs that are no multiple of 8"};  // the columns of pre
  const auto epilogue = gelu                 ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                        : p.act == Act::relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                             : CUBLASLT_EPILOGUE_BIAS;
  WorkspaceLayout workspace;
  lt::Matmul y(gpu, workspace, p.dtype, p.math, {p.in, p.out, true}, {p.in, p.n}, epilogue,
               gelu ? p.out : 0);  // y' (out, n) = w x'
  if (!y.found()) return lt::kNone;
  return Plan([gelu, y = std::move(y)](Args t) mutable {
           y.enqueue(t, lt::data(t[Linear::w]), lt::data(t[Linear::x]), lt::data(t[Linear::y]),
                     lt::data(t[Linear::bias]), gelu ? lt::data(t[Linear::pre]) : nullptr);
         })
      .with("heuristic", std::move(workspace));
}
DUET_REGISTER(linear_cublaslt);

Plan linear_backward_cublaslt(const LinearBackward& p, GpuContext& gpu) {
  using P = LinearBackward;
  if (const std::string why = lt::unsupported_reason(p.dtype, p.n, p.in, p.out); !why.empty()) return Unsupported{why};
  WorkspaceLayout workspace;
  lt::Matmul dx(gpu, workspace, p.dtype, p.math, {p.in, p.out}, {p.out, p.n},
                CUBLASLT_EPILOGUE_DEFAULT);  // dx' (in, n) = w' g'
  lt::Matmul dw(gpu, workspace, p.dtype, p.math, {p.in, p.n}, {p.out, p.n, true},
                CUBLASLT_EPILOGUE_BGRADB);  // dw' (in, out) = x' g
  if (!dx.found() || !dw.found()) return lt::kNone;
  const auto masked = workspace.add_bytes(p.act == Act::none ? 0 : p.n * p.out * size_of(p.dtype));
  return Plan([p, dx = std::move(dx), dw = std::move(dw), masked, stream = gpu.stream()](Args t) mutable {
           const void* g = lt::data(t[P::dy]);
           if (p.act != Act::none) {
             (p.act == Act::gelu ? enqueue_gelu_gradient : enqueue_masked)(p.dtype, p.n * p.out, t[P::y].data, g,
                                                                           t.workspace(masked), stream);
             g = t.workspace(masked);
           }
           dx.enqueue(t, lt::data(t[P::w]), g, lt::data(t[P::dx]), nullptr);
           dw.enqueue(t, lt::data(t[P::x]), g, lt::data(t[P::dw]), lt::data(t[P::dbias]));
         })
      .with("heuristic", std::move(workspace));
}
DUET_REGISTER(linear_backward_cublaslt);
}  // namespace
}  // namespace duet::cuda
