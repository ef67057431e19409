// SPDX-License-Identifier: Apache-2.0
// cuBLASLt. Forward: bias and activation are the epilogue of the product. Backward: the bias gradient is the epilogue
// of dw. Its matrices are column-major: a row-major (rows, cols) matrix is (cols, rows) to it. The plan takes the first
// choice of the library's heuristic.
#include <algorithm>

#include "core/alignment.h"
#include "core/cuda/cublas.h"
#include "core/error.h"
#include "kernels/gemm/masked.h"
#include "ops/gemm/linear.h"

namespace duet::cuda {
namespace {
constexpr int64_t kMaxWorkspaceBytes = 32 << 20;
constexpr uint32_t kAlignment = 16;  // of all matrices, in bytes

void* data(const Tensor& tensor) { return aligned_data(tensor, kAlignment); }

// A column-major operand: rows x cols, with the elements of a column contiguous.
struct Operand {
  int64_t rows, cols;
  bool transposed = false;
};

// d = op(a) op(b) with an epilogue, prepared. found() is false where the library has no algorithm for the case.
class Matmul {
 public:
  // aux: elements in a column of the matrix that the epilogue stores besides d; 0 where it stores none.
  Matmul(GpuContext& gpu, WorkspaceLayout& workspace, DType dtype, Math math, Operand a, Operand b,
         cublasLtEpilogue_t epilogue, int64_t aux = 0)
      : handle_(gpu.cublaslt()), stream_(gpu.stream()) {
    const cudaDataType_t type = cublas_dtype(dtype);
    DUET_CUBLAS(cublasLtMatmulDescCreate(operation_.out(), cublas_compute(math), CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    layout(a_, type, a.rows, a.cols);
    layout(b_, type, b.rows, b.cols);
    layout(d_, type, a.transposed ? a.cols : a.rows, b.transposed ? b.rows : b.cols);

    const LtPreference preference = lt_preference(kMaxWorkspaceBytes, kAlignment);
    // Some epilogues are only found where the pointers are set; any aligned address will do for the query.
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<void*>(4096));
    if (aux > 0) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, reinterpret_cast<void*>(4096));
    }
    int found = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(handle_, operation_.get(), a_.get(), b_.get(), d_.get(),
                                                       d_.get(), preference.get(), 1, &choice_, &found);
    found_ = status == CUBLAS_STATUS_SUCCESS && found == 1;
    if (found_) workspace_ = workspace.add_bytes(static_cast<int64_t>(choice_.workspaceSize));
  }
  bool found() const { return found_; }

  // args: of the plan's run.
  void enqueue(const Args& args, const void* a, const void* b, void* d, const void* bias, void* aux = nullptr) {
    const float one = 1, zero = 0;
    if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (aux) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    DUET_CUBLAS(cublasLtMatmul(handle_, operation_.get(), &one, a, a_.get(), b, b_.get(), &zero, d, d_.get(), d,
                               d_.get(), &choice_.algo, args.workspace(workspace_), choice_.workspaceSize, stream_));
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t which, const T& value) {
    DUET_CUBLAS(cublasLtMatmulDescSetAttribute(operation_.get(), which, &value, sizeof value));
  }
  static void layout(LtLayout& to, cudaDataType_t type, int64_t rows, int64_t cols) {
    DUET_CUBLAS(
        cublasLtMatrixLayoutCreate(to.out(), type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), rows));
  }

  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  LtMatmul operation_;
  LtLayout a_, b_, d_;
  cublasLtMatmulHeuristicResult_t choice_{};
  bool found_ = false;
  WorkspacePiece<void> workspace_;
};

std::string unsupported_reason(DType dtype, int64_t n, int64_t in, int64_t out) {
  if (!cublas_takes(dtype)) return std::string("dtype ") + name_of(dtype);
  if (n * in * out == 0) return "cuBLASLt takes no empty matrix";
  return std::max({n, in, out}) > INT32_MAX ? "a dimension over 2^31 - 1" : "";
}
const Unsupported kNone{"cuBLASLt has no algorithm for this case"};

Plan linear_cublaslt(const Linear& p, GpuContext& gpu) {
  if (const std::string why = unsupported_reason(p.dtype, p.n, p.in, p.out); !why.empty()) return Unsupported{why};
  const bool gelu = p.act == Act::gelu;
  if (gelu && p.out % 8 != 0) return Unsupported{"gelu with outputs that are no multiple of 8"};  // the columns of pre
  const auto epilogue = gelu                 ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                        : p.act == Act::relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                             : CUBLASLT_EPILOGUE_BIAS;
  WorkspaceLayout workspace;
  Matmul y(gpu, workspace, p.dtype, p.math, {p.in, p.out, true}, {p.in, p.n}, epilogue,
           gelu ? p.out : 0);  // y' (out, n) = w x'
  if (!y.found()) return kNone;
  return Plan([gelu, y = std::move(y)](Args t) mutable {
           y.enqueue(t, data(t[Linear::w]), data(t[Linear::x]), data(t[Linear::y]), data(t[Linear::bias]),
                     gelu ? data(t[Linear::pre]) : nullptr);
         })
      .with("heuristic", std::move(workspace));
}
DUET_REGISTER(linear_cublaslt);

Plan linear_backward_cublaslt(const LinearBackward& p, GpuContext& gpu) {
  using P = LinearBackward;
  if (const std::string why = unsupported_reason(p.dtype, p.n, p.in, p.out); !why.empty()) return Unsupported{why};
  WorkspaceLayout workspace;
  Matmul dx(gpu, workspace, p.dtype, p.math, {p.in, p.out}, {p.out, p.n},
            CUBLASLT_EPILOGUE_DEFAULT);  // dx' (in, n) = w' g'
  Matmul dw(gpu, workspace, p.dtype, p.math, {p.in, p.n}, {p.out, p.n, true},
            CUBLASLT_EPILOGUE_BGRADB);  // dw' (in, out) = x' g
  if (!dx.found() || !dw.found()) return kNone;
  const auto masked = workspace.add_bytes(p.act == Act::none ? 0 : p.n * p.out * size_of(p.dtype));
  return Plan([p, dx = std::move(dx), dw = std::move(dw), masked, stream = gpu.stream()](Args t) mutable {
           const void* g = data(t[P::dy]);
           if (p.act != Act::none) {
             (p.act == Act::gelu ? enqueue_gelu_gradient : enqueue_masked)(p.dtype, p.n * p.out, t[P::y].data, g,
                                                                           t.workspace(masked), stream);
             g = t.workspace(masked);
           }
           dx.enqueue(t, data(t[P::w]), g, data(t[P::dx]), nullptr);
           dw.enqueue(t, data(t[P::x]), g, data(t[P::dw]), data(t[P::dbias]));
         })
      .with("heuristic", std::move(workspace));
}
DUET_REGISTER(linear_backward_cublaslt);
}  // namespace
}  // namespace duet::cuda
