// SPDX-License-Identifier: Apache-2.0
// A product by cuBLASLt with an epilogue, for linear_cublaslt.cpp and gelu_linear_cublaslt.cpp. Its matrices are
// column-major: a row-major (rows, cols) matrix is (cols, rows) to it. A plan takes the first choice of the library's
// heuristic.
#pragma once
#include <algorithm>
#include <string>

#include "core/alignment.h"
#include "core/cuda/cublas.h"
#include "core/error.h"

namespace duet::cuda::lt {

inline constexpr int64_t kMaxWorkspaceBytes = 32 << 20;
inline constexpr uint32_t kAlignment = 16;  // of all matrices, in bytes

inline void* data(const Tensor& tensor) { return aligned_data(tensor, kAlignment); }

// A column-major operand: rows x cols, with the elements of a column contiguous.
struct Operand {
  int64_t rows, cols;
  bool transposed = false;
};

// d = op(a) op(b) with an epilogue, prepared. found() is false where the library has no algorithm for the case.
class Matmul {
 public:
  // aux: elements in a column of the matrix that the epilogue stores or reads besides d; 0 where there is none.
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
  void enqueue(const Args& args, const void* a, const void* b, void* d, const void* bias, const void* aux = nullptr) {
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

inline std::string unsupported_reason(DType dtype, int64_t n, int64_t in, int64_t out) {
  if (!cublas_takes(dtype)) return std::string("dtype ") + name_of(dtype);
  if (n * in * out == 0) return "cuBLASLt takes no empty matrix";
  return std::max({n, in, out}) > INT32_MAX ? "a dimension over 2^31 - 1" : "";
}
inline const Unsupported kNone{"cuBLASLt has no algorithm for this case"};
// Its slope is wrong by 2.5e-5 on an H100, as with PTX's tanh.approx, whose relative error is up to 2^-11.
inline const Unsupported kGeluOfF32{"f32: the gelu of cuBLASLt is less exact"};

}  // namespace duet::cuda::lt
